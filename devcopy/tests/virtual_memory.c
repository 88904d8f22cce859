/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Transfers of memory that was made with cuMemCreate and cuMemMap. */
#include <dlfcn.h>
#include <string.h>

#include "cuda_abi.h"
#include "pair.h"

enum { PIECE = 2 << 20 };

static void *call(const char *name) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  void *found = library ? dlsym(library, name) : NULL;
  EXPECT(true, found != NULL);
  return found;
}

#define CALL(name, types, ...)                                                                     \
  do {                                                                                             \
    CUresult(*function_) types;                                                                    \
    void *found_ = call(#name);                                                                    \
    memcpy(&function_, &found_, sizeof found_);                                                    \
    EXPECT(CUDA_SUCCESS, function_(__VA_ARGS__));                                                  \
  } while (0)

static CUmemGenericAllocationHandle piece(int device, int handle_types) {
  CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                    .requestedHandleTypes = handle_types,
                                    .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
  CUmemGenericAllocationHandle handle = 0;
  CALL(cuMemCreate,
       (CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long),
       &handle, PIECE, &properties, 0);
  return handle;
}

static uint64_t take(int device, unsigned pieces, int handle_types) {
  const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, device},
                                  CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUdeviceptr base = 0;
  CALL(cuMemAddressReserve, (CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long), &base,
       (size_t)pieces * PIECE, 0, 0, 0);
  for (unsigned i = 0; i < pieces; ++i) {
    const CUmemGenericAllocationHandle handle = piece(device, handle_types);
    const CUdeviceptr at = base + (uint64_t)i * PIECE;
    CALL(cuMemMap, (CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long),
         at, PIECE, 0, handle, 0);
    CALL(cuMemRelease, (CUmemGenericAllocationHandle), handle);
    CALL(cuMemSetAccess, (CUdeviceptr, size_t, const CUmemAccessDesc *, size_t), at, PIECE, &access,
         1);
  }
  return base;
}

static void give_back(uint64_t base, unsigned pieces) {
  for (unsigned i = 0; i < pieces; ++i)
    CALL(cuMemUnmap, (CUdeviceptr, size_t), base + (uint64_t)i * PIECE, PIECE);
  CALL(cuMemAddressFree, (CUdeviceptr, size_t), base, (size_t)pieces * PIECE);
}

struct expected {
  tdc_protocol wanted, protocol;
  bool fell_back;
};

/* Side 0 sends from `pointer`, side 1 receives there and checks. */
static void move(struct side *side, uint64_t pointer, size_t bytes, const struct expected *expected,
                 unsigned seed) {
  tdc_report report = {0};
  if (side->number == 0) {
    put_pattern(side, pointer, bytes, seed, true);
    EXPECT(TDC_OK, tdc_send(side->link, pointer, bytes, &report));
  } else {
    EXPECT(TDC_OK, tdc_receive(side->link, pointer, bytes, expected->wanted, &report));
    check_pattern(side, pointer, bytes, seed, true);
    EXPECT(expected->fell_back, report.fell_back);
  }
  EXPECT(expected->protocol, report.protocol);
}

void virtual_memory(struct side *side) {
  static const tdc_protocol protocols[] = {TDC_GET, TDC_PUT, TDC_COOPERATE, TDC_STAGED, TDC_AUTO};
  for (unsigned round = 0; round < 3; ++round) { /* the addresses are used again */
    const uint64_t base = take(side->device, 1, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    for (unsigned i = 0; i < 5; ++i) {
      const struct expected expected = {.wanted = protocols[i],
                                        .protocol = i == 4 ? TDC_GET : protocols[i]};
      move(side, base + 100, 1000000 + i, &expected, 5 * round + i);
    }
    give_back(base, 1);
  }
}

/* Made without a handle type: nobody else can map it. */
void virtual_private(struct side *side) {
  const uint64_t base = take(side->device, 1, CU_MEM_HANDLE_TYPE_NONE);
  for (tdc_protocol wanted = TDC_GET; wanted <= TDC_COOPERATE; ++wanted) {
    const struct expected expected = {wanted, TDC_STAGED, true};
    move(side, base + 100, 100000, &expected, (unsigned)wanted);
  }
  give_back(base, 1);
}

void virtual_pieces(struct side *side) {
  const uint64_t base = take(side->device, 2, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  const struct expected within = {TDC_GET, TDC_GET, false};
  move(side, base + PIECE + 100, PIECE - 100, &within, 1);
  const struct expected across = {TDC_GET, TDC_STAGED, true};
  move(side, base + PIECE - 524288, 1000000, &across, 2); /* no handle names both */
  give_back(base, 2);
}

void virtual_no_peers(struct side *side) {
  const uint64_t base = take(side->device, 1, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  const struct expected expected = {TDC_PUT, TDC_STAGED, true};
  move(side, base + 100, 100000, &expected, 3);
  give_back(base, 1);
}
