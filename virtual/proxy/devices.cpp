// SPDX-License-Identifier: MIT OR Apache-2.0
// The devices of this node, and what the client is told of them: OpenCL 1.2, without what it cannot
// have from afar.
#include <cstdio>
#include <cstring>
#include <string_view>

#include "proxy.hpp"

namespace {

// Of NVIDIA's extension; the headers lack their names.
constexpr cl_uint CL_DEVICE_PCI_BUS_ID_NV = 0x4008, CL_DEVICE_PCI_SLOT_ID_NV = 0x4009,
                  CL_DEVICE_PCI_DOMAIN_ID_NV = 0x400A;

std::string text_of(cl_device_id device, cl_uint name) {
  size_t size = 0;
  if (real.GetDeviceInfo(device, name, 0, nullptr, &size) != 0 || size == 0)
    return "";
  std::string text(size, '\0');
  if (real.GetDeviceInfo(device, name, size, text.data(), nullptr) != 0)
    return "";
  return text.c_str();
}

// "OpenCL 3.0 CUDA" is told as "OpenCL 1.2 CUDA".
std::string lowered(const std::string &version, const std::string &prefix) {
  if (version.compare(0, prefix.size(), prefix) != 0)
    return version;
  std::string rest = version.substr(prefix.size());
  size_t end = rest.find(' ');
  std::string number = rest.substr(0, end);
  bool is_newer = number > "1.2";
  return prefix + (is_newer ? "1.2" : number) + (end == std::string::npos ? " " : rest.substr(end));
}

// What a kernel may use; what needs calls that do not travel is left out.
bool is_of_kernels(std::string_view name) {
  static constexpr std::string_view kept[] = {"cl_khr_fp",
                                              "cl_khr_byte_addressable_store",
                                              "cl_khr_global_int32",
                                              "cl_khr_local_int32",
                                              "cl_khr_int64",
                                              "cl_khr_3d_image_writes",
                                              "cl_khr_select_fpro",
                                              "cl_nv_compiler_options",
                                              "cl_nv_pragma_unroll",
                                              "cl_nv_device_attr",
                                              "cl_nv_copy_opts",
                                              "cl_amd_media_ops",
                                              "cl_amd_printf",
                                              "cl_amd_vec3",
                                              "cl_amd_fp64",
                                              "cl_amd_popcnt",
                                              "cl_amd_device_attribute"};
  for (std::string_view prefix : kept)
    if (name.starts_with(prefix))
      return true;
  return false;
}

std::string kept_extensions(const std::string &all) {
  std::string kept;
  for (size_t at = 0; at < all.size();) {
    size_t end = std::min(all.find(' ', at), all.size());
    std::string_view name(all.data() + at, end - at);
    if (is_of_kernels(name)) {
      kept += kept.empty() ? "" : " ";
      kept += name;
    }
    at = end + 1;
  }
  return kept;
}

void put_fact(tps_text *out, cl_uint name, const void *value, size_t size) {
  tps_put(out, name);
  tps_put_bytes(out, value, size);
}

bool put_changed(tps_text *out, cl_device_id device, cl_uint name) {
  std::string text;
  switch (name) {
  case CL_DEVICE_VERSION:
    text = lowered(text_of(device, name), "OpenCL ");
    break;
  case CL_DEVICE_OPENCL_C_VERSION:
    text = lowered(text_of(device, name), "OpenCL C ");
    break;
  case CL_DEVICE_EXTENSIONS:
    text = kept_extensions(text_of(device, name));
    break;
  case CL_DEVICE_BUILT_IN_KERNELS:
    break;
  case CL_DEVICE_HOST_UNIFIED_MEMORY: {
    cl_uint no = 0;
    put_fact(out, name, &no, sizeof no);
    return true;
  }
  case CL_DEVICE_EXECUTION_CAPABILITIES: {
    cl_ulong kernels = CL_EXEC_KERNEL;
    put_fact(out, name, &kernels, sizeof kernels);
    return true;
  }
  default:
    return false;
  }
  put_fact(out, name, text.c_str(), text.size() + 1);
  return true;
}

template <class Number> Number number_of(cl_device_id device, cl_uint name) {
  Number number = 0;
  real.GetDeviceInfo(device, name, sizeof number, &number, nullptr);
  return number;
}

std::string pci_of(cl_device_id device) {
  cl_uint place[4] = {}; // domain, bus, device, function
  char text[32];
  if (real.GetDeviceInfo(device, CL_DEVICE_PCI_BUS_INFO_KHR, sizeof place, place, nullptr) != 0) {
    cl_uint slot = 0;
    if (real.GetDeviceInfo(device, CL_DEVICE_PCI_BUS_ID_NV, sizeof place[1], &place[1], nullptr) !=
            0 ||
        real.GetDeviceInfo(device, CL_DEVICE_PCI_SLOT_ID_NV, sizeof slot, &slot, nullptr) != 0)
      return "null";
    place[0] = number_of<cl_uint>(device, CL_DEVICE_PCI_DOMAIN_ID_NV);
    place[2] = slot >> 3;
    place[3] = slot & 7;
  }
  std::snprintf(text, sizeof text, "\"%04x:%02x:%02x.%x\"", place[0], place[1], place[2], place[3]);
  return text;
}

std::string uuid_of(cl_device_id device) {
  unsigned char bytes[16];
  if (real.GetDeviceInfo(device, CL_DEVICE_UUID_KHR, sizeof bytes, bytes, nullptr) != 0)
    return "null";
  std::string text = "\"";
  for (int i = 0; i < 16; i++) {
    char digits[4];
    std::snprintf(digits, sizeof digits, "%02x", bytes[i]);
    text += i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
    text += digits;
  }
  return text + "\"";
}

std::string json_of(cl_device_id device, size_t index) {
  auto type = number_of<cl_ulong>(device, CL_DEVICE_TYPE);
  cl_platform_id platform = nullptr;
  char name[256] = "";
  real.GetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, nullptr);
  real.GetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name - 1, name, nullptr);
  std::string text = "{\"index\":" + std::to_string(index) + ",\"platform\":" + json_text(name);
  text += ",\"name\":" + json_text(text_of(device, CL_DEVICE_NAME));
  text += ",\"vendor\":" + json_text(text_of(device, CL_DEVICE_VENDOR));
  text += ",\"driver\":" + json_text(text_of(device, CL_DRIVER_VERSION));
  text += ",\"version\":" + json_text(text_of(device, CL_DEVICE_VERSION));
  text += std::string(",\"type\":\"") +
          ((type & CL_DEVICE_TYPE_GPU) != 0   ? "gpu"
           : (type & CL_DEVICE_TYPE_CPU) != 0 ? "cpu"
                                              : "accelerator") +
          "\"";
  text += ",\"memory\":" + std::to_string(number_of<cl_ulong>(device, CL_DEVICE_GLOBAL_MEM_SIZE));
  text += ",\"compute_units\":" +
          std::to_string(number_of<cl_uint>(device, CL_DEVICE_MAX_COMPUTE_UNITS));
  return text + ",\"pci\":" + pci_of(device) + ",\"uuid\":" + uuid_of(device) + "}";
}

} // namespace

std::vector<cl_device_id> list_devices() {
  static const std::vector<cl_device_id> devices = [] {
    std::vector<cl_device_id> found;
    cl_uint count = 0;
    if (real.GetPlatformIDs(0, nullptr, &count) != 0 || count == 0)
      return found;
    std::vector<cl_platform_id> platforms(count);
    real.GetPlatformIDs(count, platforms.data(), nullptr);
    for (cl_platform_id platform : platforms) {
      cl_uint more = 0;
      if (real.GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &more) != 0 || more == 0)
        continue;
      std::vector<cl_device_id> some(more);
      real.GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, more, some.data(), nullptr);
      found.insert(found.end(), some.begin(), some.end());
    }
    return found;
  }();
  return devices;
}

// All that OpenCL 1.2 names, and the vendors' own numbers.
void put_facts(tps_text *out, cl_device_id device) {
  static constexpr struct {
    cl_uint first, last;
  } ranges[] = {{CL_DEVICE_TYPE, CL_DEVICE_PRINTF_BUFFER_SIZE},
                {CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV, CL_DEVICE_PCI_DOMAIN_ID_NV}};
  tps_text facts = {};
  uint64_t count = 0;
  for (auto [first, last] : ranges)
    for (cl_uint name = first; name <= last; name++) {
      size_t before = facts.length;
      if (!put_changed(&facts, device, name)) {
        tps_put(&facts, name);
        if (put_info(&facts, [=](size_t size, void *value, size_t *size_ret) {
              return real.GetDeviceInfo(device, name, size, value, size_ret);
            }) != 0)
          facts.length = before;
      }
      count += facts.length > before;
    }
  cl_platform_id platform = nullptr;
  real.GetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, nullptr);
  char name[128] = "";
  real.GetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name - 1, name, nullptr);
  put_fact(&facts, CL_PLATFORM_NAME, name, std::strlen(name) + 1);
  tps_put(out, count + 1);
  std::memcpy(tps_room(out, facts.length), facts.data, facts.length);
  std::free(facts.data);
}

std::string json_text(const std::string &text) {
  std::string made = "\"";
  for (char character : text) {
    char escaped[8];
    auto code = static_cast<unsigned char>(character);
    if (code < 0x20 || character == '"' || character == '\\' || code == 0x7f)
      std::snprintf(escaped, sizeof escaped, "\\u%04x", code);
    else
      std::snprintf(escaped, sizeof escaped, "%c", character);
    made += escaped;
  }
  return made + "\"";
}

std::string devices_as_json() {
  std::string text;
  size_t index = 0;
  for (cl_device_id device : list_devices()) {
    text += index > 0 ? "," : "";
    text += json_of(device, index++);
  }
  return text;
}
