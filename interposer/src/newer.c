/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls newer than MPI 3.1. Programs find out by weak symbols and dlsym what their MPI can do, so
 * this library, which comes first in both searches, shows none of them. Where the MPI of this
 * process has one, its entry in the MPI's table of symbols leads here instead, and so do pointers
 * that were bound to it before. Both are memory of this process alone; the files stay as they are.
 */
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "newer.h"

enum { MPI_NAME, PMPI_NAME, NAMES };

/* What is needed of a loaded library's dynamic section. */
struct object {
  const struct dl_phdr_info *info;
  ElfW(Sym) * symbols;
  const char *names;
  size_t names_size;
  const uint32_t *gnu_hash; /* NULL: it has the older one */
  const uint32_t *hash;
  const ElfW(Rela) * relocations[2];
  size_t counts[2];
};

static bool incomplete; /* something could not be made to lead here */

static ElfW(Addr) address_of(const void *pointer) { return (ElfW(Addr))pointer; }

static void *pointer_to(ElfW(Addr) address) {
  return (void *)address; /* NOLINT(performance-no-int-to-ptr) */
}

/* The part of a library that holds [address, address + size); NULL: none does. */
static const ElfW(Phdr) *
    part_of(const struct dl_phdr_info *info, ElfW(Addr) address, size_t size) {
  for (unsigned i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) *part = &info->dlpi_phdr[i];
    ElfW(Addr) offset = address - info->dlpi_addr - part->p_vaddr;
    if (part->p_type == PT_LOAD && size <= part->p_memsz && offset <= part->p_memsz - size)
      return part;
  }
  return NULL;
}

/* Loaders may leave the addresses in a dynamic section as they are in the file. */
static void *loaded_at(const struct dl_phdr_info *info, ElfW(Addr) address, size_t size) {
  if (address == 0 || size == 0)
    return NULL;
  if (part_of(info, address, size) == NULL)
    address += info->dlpi_addr;
  return part_of(info, address, size) != NULL ? pointer_to(address) : NULL;
}

static bool read_object(const struct dl_phdr_info *info, struct object *object) {
  ElfW(Addr) tags[DT_NUM] = {0}, hash = 0;
  const ElfW(Dyn) *tag = NULL;
  for (unsigned i = 0; i < info->dlpi_phnum; ++i)
    if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
      tag = pointer_to(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
  for (; tag != NULL && tag->d_tag != DT_NULL; ++tag) {
    if (tag->d_tag > 0 && tag->d_tag < DT_NUM)
      tags[tag->d_tag] = tag->d_un.d_val;
    if (tag->d_tag == DT_GNU_HASH)
      hash = tag->d_un.d_val;
  }
  *object = (struct object){
      .info = info,
      .symbols = loaded_at(info, tags[DT_SYMTAB], sizeof *object->symbols),
      .names = loaded_at(info, tags[DT_STRTAB], tags[DT_STRSZ]),
      .names_size = tags[DT_STRSZ],
      .gnu_hash = loaded_at(info, hash, 4 * sizeof *object->gnu_hash),
      .hash = loaded_at(info, tags[DT_HASH], 2 * sizeof *object->hash),
      .relocations = {loaded_at(info, tags[DT_RELA], tags[DT_RELASZ]),
                      tags[DT_PLTREL] == DT_RELA
                          ? loaded_at(info, tags[DT_JMPREL], tags[DT_PLTRELSZ])
                          : NULL},
      .counts = {tags[DT_RELASZ] / sizeof(ElfW(Rela)), tags[DT_PLTRELSZ] / sizeof(ElfW(Rela))},
  };
  return object->symbols != NULL && object->names != NULL &&
         object->names[object->names_size - 1] == '\0';
}

/* The row of a symbol's name, and which of its two names that is; NULL: it is none of ours. */
static struct tps_newer *row_of(const struct object *object, const ElfW(Sym) * symbol, int *which) {
  if (symbol->st_name >= object->names_size)
    return NULL;
  const char *name = object->names + symbol->st_name;
  *which = name[0] == 'P' ? PMPI_NAME : MPI_NAME;
  name += *which == PMPI_NAME;
  size_t low = 0;
  size_t high = strncmp(name, "MPI_", 4) == 0 ? tps__newer_count : 0;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    int order = strcmp(name, tps__newer[middle].name);
    if (order == 0)
      return &tps__newer[middle];
    if (order < 0)
      high = middle;
    else
      low = middle + 1;
  }
  return NULL;
}

/* The pages of [from, to) are given this protection. */
static bool protect(ElfW(Addr) from, ElfW(Addr) to, int protection) {
  ElfW(Addr) page = (ElfW(Addr))sysconf(_SC_PAGESIZE);
  from -= from % page;
  return mprotect(pointer_to(from), to - from, protection) == 0;
}

/* How many symbols a library has: the last one is at the end of the last chain of its hash table. */
static size_t symbol_count(const struct object *object) {
  const uint32_t *table = object->gnu_hash;
  if (table == NULL)
    return object->hash != NULL ? object->hash[1] : 0;
  const uint32_t *buckets = table + 4 + (size_t)2 * table[2], *chains = buckets + table[0];
  uint32_t last = 0;
  for (uint32_t i = 0; i < table[0]; ++i)
    last = buckets[i] > last ? buckets[i] : last;
  if (last < table[1])
    return 0;
  while ((chains[last - table[1]] & 1) == 0)
    ++last;
  return (size_t)last + 1;
}

/* Notes what the MPI has of the calls, so that the wrappers can be called from now on. */
static bool note_calls(const struct object *object, size_t count) {
  bool any = false;
  int which;
  for (size_t i = 1; i < count; ++i) {
    const ElfW(Sym) *symbol = &object->symbols[i];
    struct tps_newer *row = symbol->st_shndx != SHN_UNDEF ? row_of(object, symbol, &which) : NULL;
    if (row == NULL || symbol->st_value == 0 || ELF64_ST_TYPE(symbol->st_info) != STT_FUNC)
      continue;
    row->own[which] = object->info->dlpi_addr + symbol->st_value;
    any = true;
    if (which == PMPI_NAME) {
      union tps_address real = {.object = pointer_to(row->own[which])};
      __atomic_store_n(row->real, real.function, __ATOMIC_RELEASE);
    }
  }
  return any;
}

static bool leads_here(const struct tps_newer *row, int which, ElfW(Addr) address) {
  return address != 0 && address == row->own[which] && row->own[PMPI_NAME] != 0;
}

enum { HAS_NONE = 1, HAS_SOME };

/* Makes the MPI's symbols lead here: whatever is bound or looked up from now on. */
static int turn_symbols(struct dl_phdr_info *info, size_t size, void *mpi) {
  (void)size;
  struct object object;
  if (part_of(info, address_of(mpi), 1) == NULL)
    return 0;
  size_t count = read_object(info, &object) ? symbol_count(&object) : 0;
  ElfW(Addr) from = address_of(object.symbols), to = from + count * sizeof *object.symbols;
  const ElfW(Phdr) *part = count > 0 ? part_of(info, from, to - from) : NULL;
  if (part != NULL && !note_calls(&object, count))
    return HAS_NONE;
  /* Code may lie in the same pages, and another thread be in it. */
  int usual = PROT_READ;
  if (part != NULL)
    usual |= ((part->p_flags & PF_W) != 0 ? PROT_WRITE : 0) |
             ((part->p_flags & PF_X) != 0 ? PROT_EXEC : 0);
  if (part == NULL || !protect(from, to, usual | PROT_WRITE)) {
    incomplete = true;
    return HAS_SOME;
  }
  for (size_t i = 1; i < count; ++i) {
    ElfW(Sym) *symbol = &object.symbols[i];
    int which;
    const struct tps_newer *row = row_of(&object, symbol, &which);
    if (row == NULL || !leads_here(row, which, info->dlpi_addr + symbol->st_value))
      continue;
    union tps_address wrapper = {.function = row->wrapper};
    __atomic_store_n(&symbol->st_value, address_of(wrapper.object) - info->dlpi_addr,
                     __ATOMIC_RELEASE);
  }
  protect(from, to, usual);
  return HAS_SOME;
}

/* The part of a library that the loader has made read-only behind itself. */
struct sealed {
  ElfW(Addr) from;
  ElfW(Addr) to;
  bool is_open;
};

static struct sealed sealed_part(const struct dl_phdr_info *info) {
  struct sealed sealed = {0};
  ElfW(Addr) page = (ElfW(Addr))sysconf(_SC_PAGESIZE);
  for (unsigned i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) *part = &info->dlpi_phdr[i];
    if (part->p_type != PT_GNU_RELRO)
      continue;
    sealed.from = info->dlpi_addr + part->p_vaddr;
    sealed.to = sealed.from + part->p_memsz;
    sealed.from -= sealed.from % page;
    sealed.to -= sealed.to % page;
  }
  return sealed;
}

/* Makes one pointer that was bound to the MPI's function lead here. */
static void turn_pointer(const struct object *object, const ElfW(Rela) * relocation,
                         struct sealed *sealed) {
  int which;
  ElfW(Addr) at = object->info->dlpi_addr + relocation->r_offset;
  const ElfW(Sym) *symbol = &object->symbols[ELF64_R_SYM(relocation->r_info)];
  const struct tps_newer *row = loaded_at(object->info, address_of(symbol), sizeof *symbol) != NULL
                                    ? row_of(object, symbol, &which)
                                    : NULL;
  const ElfW(Phdr) *part = row != NULL ? part_of(object->info, at, sizeof at) : NULL;
  if (part == NULL || (part->p_flags & PF_W) == 0)
    return;
  ElfW(Addr) *pointer = pointer_to(at);
  if (!leads_here(row, which, __atomic_load_n(pointer, __ATOMIC_RELAXED)))
    return; /* bound to another tool's, or not yet: then by the MPI's symbols */
  bool is_sealed = at >= sealed->from && at < sealed->to;
  if (is_sealed && !sealed->is_open)
    sealed->is_open = protect(sealed->from, sealed->to, PROT_READ | PROT_WRITE);
  if (is_sealed && !sealed->is_open) {
    incomplete = true;
    return;
  }
  union tps_address wrapper = {.function = row->wrapper};
  __atomic_store_n(pointer, address_of(wrapper.object), __ATOMIC_RELEASE);
}

static int turn_pointers(struct dl_phdr_info *info, size_t size, void *unused) {
  (void)size;
  (void)unused;
  struct object object;
  if (!read_object(info, &object))
    return 0;
  struct sealed sealed = sealed_part(info);
  for (int table = 0; table < 2; ++table)
    for (size_t i = 0; object.relocations[table] != NULL && i < object.counts[table]; ++i)
      if (ELF64_R_SYM(object.relocations[table][i].r_info) != 0)
        turn_pointer(&object, &object.relocations[table][i], &sealed);
  if (sealed.is_open)
    protect(sealed.from, sealed.to, PROT_READ);
  return 0;
}

void tps__see_newer(void) {
  static bool begun;
  if (__atomic_load_n(&begun, __ATOMIC_RELAXED))
    return;
  union tps_address mpi = {.function = tps__find("PMPI_Get_library_version")};
  if (mpi.object == NULL || __atomic_exchange_n(&begun, true, __ATOMIC_RELAXED))
    return;
  if (dl_iterate_phdr(turn_symbols, mpi.object) == HAS_SOME)
    dl_iterate_phdr(turn_pointers, NULL);
}

bool tps__newer_unseen(void) { return incomplete; }

/* What is linked to its MPI has that now, and makes its first call later. */
__attribute__((constructor)) static void begin(void) { tps__see_newer(); }
