/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Nine-point stencil on a 2-D grid of ranks in the manner of SHOC's Stencil2D: halos of H rows and
 * columns are exchanged once per H steps, and the steps between compute ever smaller borders. Rows
 * lie together in memory; columns are packed by a kernel. The domain is periodic. The result is
 * checked against the same steps on one host.
 */
#include "../gpu/gpu.h"
#include "../gpu/run.h"
#include "kernels.h"

static const char usage[] = "usage: stencil2d [--grid ROWSxCOLUMNS] [--rows N] [--columns N] "
                            "[--halo H] [--iterations N] [--device] [--rate POINTS_PER_S]";

struct options {
  int grid[2];
  int rows; /* of the block of a rank */
  int columns;
  int halo;       /* steps per exchange */
  int iterations; /* exchanges, each with `halo` steps */
  int device;
  int rate; /* points per second of the kernel on the stand-in; 0: as fast as the CPU is */
};

/* Host functions of kernels get the kernel's arguments only. */
static double points_per_s;

struct block {
  const struct options *options;
  int rank;
  int above, below, left, right; /* ranks */
  unsigned stride;               /* columns with halos */
  size_t bytes;
  double *now;
  double *next;
  double *out[2]; /* packed columns: left, right */
  double *in[2];
  struct gpu_kernel stencil;
  struct gpu_kernel copy;
};

typedef double host_kernel(void **arguments, const unsigned grid[3], const unsigned block[3]);
host_kernel toposeat_host_stencil9;
host_kernel toposeat_host_copy_block;

static void stencil_rows(double *out, const double *in, size_t stride, unsigned rows,
                         unsigned columns) {
  for (unsigned r = 0; r < rows; ++r)
    for (unsigned c = 0; c < columns; ++c) {
      const double *at = in + r * stride + c;
      const double *up = at - stride;
      const double *down = at + stride;
      out[r * stride + c] = WEIGHT_CENTRE * *at + WEIGHT_SIDE * (*up + *down + at[-1] + at[1]) +
                            WEIGHT_CORNER * (up[-1] + up[1] + down[-1] + down[1]);
    }
}

double toposeat_host_stencil9(void **arguments, const unsigned grid[3], const unsigned block[3]) {
  (void)grid;
  (void)block;
  size_t stride = *(unsigned *)arguments[2];
  unsigned rows = *(unsigned *)arguments[3];
  unsigned columns = *(unsigned *)arguments[4];
  size_t bytes = sizeof(double) * ((rows - 1) * stride + columns);
  stencil_rows(gpu_reach(arguments, 0, bytes), gpu_reach(arguments, 1, bytes), stride, rows,
               columns);
  return points_per_s > 0 ? (double)rows * columns / points_per_s : 0;
}

double toposeat_host_copy_block(void **arguments, const unsigned grid[3], const unsigned block[3]) {
  (void)grid;
  (void)block;
  size_t out_stride = *(unsigned *)arguments[1];
  size_t in_stride = *(unsigned *)arguments[3];
  unsigned rows = *(unsigned *)arguments[4];
  unsigned columns = *(unsigned *)arguments[5];
  size_t last = rows - 1;
  double *out = gpu_reach(arguments, 0, sizeof(double) * (last * out_stride + columns));
  const double *in = gpu_reach(arguments, 2, sizeof(double) * (last * in_stride + columns));
  for (unsigned r = 0; r < rows; ++r)
    memcpy(out + r * out_stride, in + r * in_stride, sizeof(double) * columns);
  return 0;
}

/* "2x4" */
static void parse_grid(const char *text, int grid[2]) {
  char first[12] = "";
  const char *cross = strchr(text, 'x');
  if (cross == NULL || (size_t)(cross - text) >= sizeof first)
    run_fail(usage);
  memcpy(first, text, (size_t)(cross - text));
  grid[0] = run_number(first, usage);
  grid[1] = run_number(cross + 1, usage);
}

static struct options parse_options(int argc, char **argv) {
  struct options options = {
      .grid = {2, 4}, .rows = 256, .columns = 256, .halo = 1, .iterations = 10};
  for (int i = 1; i < argc; ++i) {
    const char *name = argv[i];
    const char *value = i + 1 < argc ? argv[i + 1] : "";
    if (strcmp(name, "--device") == 0)
      options.device = 1;
    else if (strcmp(name, "--grid") == 0 && ++i) {
      parse_grid(value, options.grid);
    } else if (strcmp(name, "--rows") == 0 && ++i)
      options.rows = run_number(value, usage);
    else if (strcmp(name, "--columns") == 0 && ++i)
      options.columns = run_number(value, usage);
    else if (strcmp(name, "--halo") == 0 && ++i)
      options.halo = run_number(value, usage);
    else if (strcmp(name, "--rate") == 0 && ++i)
      options.rate = run_number(value, usage);
    else if (strcmp(name, "--iterations") == 0 && ++i)
      options.iterations = run_number(value, usage);
    else
      run_fail(usage);
  }
  if (options.halo > options.rows || options.halo > options.columns)
    run_fail("stencil2d: the halo is wider than the block");
  /* Every rank repeats all steps on the host, from a margin as wide as they are many. */
  long long margin = (long long)options.halo * options.iterations;
  if (options.rows > 1 << 19 || options.columns > 1 << 19 || margin > 1 << 18)
    run_fail("stencil2d: more than 2^19 rows or columns, or 2^18 steps");
  return options;
}

/* The start of the domain's point (row, column), which is periodic. */
static double start_value(const struct options *options, long row, long column) {
  long rows = (long)options->grid[0] * options->rows;
  long columns = (long)options->grid[1] * options->columns;
  row = (row % rows + rows) % rows;
  column = (column % columns + columns) % columns;
  return (double)((row * 7919 + column * 104729) % 1000) / 1000;
}

static double *host_array(size_t bytes) {
  double *values = calloc(1, bytes);
  if (values == NULL)
    run_fail("stencil2d: out of memory");
  return values;
}

static void find_neighbours(struct block *block) {
  const int *grid = block->options->grid;
  int row = block->rank / grid[1];
  int column = block->rank % grid[1];
  block->above = (row + grid[0] - 1) % grid[0] * grid[1] + column;
  block->below = (row + 1) % grid[0] * grid[1] + column;
  block->left = row * grid[1] + (column + grid[1] - 1) % grid[1];
  block->right = row * grid[1] + (column + 1) % grid[1];
}

/* The block's own points with `margin` more on every side, from the start of the domain. */
static void fill(const struct block *block, double *values, int margin, int wanted) {
  const struct options *options = block->options;
  long first_row = (long)(block->rank / options->grid[1]) * options->rows;
  long first_column = (long)(block->rank % options->grid[1]) * options->columns;
  size_t stride = (size_t)options->columns + 2 * (size_t)margin;
  for (long r = -wanted; r < options->rows + wanted; ++r)
    for (long c = -wanted; c < options->columns + wanted; ++c)
      values[(size_t)(r + margin) * stride + (size_t)(c + margin)] =
          start_value(options, first_row + r, first_column + c);
}

static struct block make_block(const struct options *options) {
  struct block block = {.options = options};
  MPI_Comm_rank(MPI_COMM_WORLD, &block.rank);
  find_neighbours(&block);
  size_t halo = (size_t)options->halo;
  block.stride = (unsigned)((size_t)options->columns + 2 * halo);
  block.bytes = sizeof(double) * block.stride * ((size_t)options->rows + 2 * halo);
  block.now = gpu_allocate(block.bytes);
  block.next = gpu_allocate(block.bytes);
  for (int side = 0; side < 2; ++side) {
    size_t bytes = sizeof(double) * halo * ((size_t)options->rows + 2 * halo);
    block.out[side] = gpu_allocate(bytes);
    block.in[side] = gpu_allocate(bytes);
  }
  block.stencil = gpu_kernel(ptx, "stencil9", toposeat_host_stencil9);
  block.copy = gpu_kernel(ptx, "copy_block", toposeat_host_copy_block);
  double *host = host_array(block.bytes);
  fill(&block, host, options->halo, 0);
  gpu_put(block.now, host, block.bytes);
  free(host);
  return block;
}

static void release_block(struct block *block) {
  gpu_release(block->now);
  gpu_release(block->next);
  for (int side = 0; side < 2; ++side) {
    gpu_release(block->out[side]);
    gpu_release(block->in[side]);
  }
}

/* H whole rows up and down; halo columns travel along on the second way, so corners arrive too. */
static void exchange_rows(struct block *block) {
  const struct options *options = block->options;
  size_t halo = (size_t)options->halo;
  size_t rows = (size_t)options->rows;
  size_t stride = block->stride;
  int count = options->halo * (int)stride;
  MPI_Request requests[4];
  MPI_Irecv(block->now, count, MPI_DOUBLE, block->above, 0, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(block->now + (halo + rows) * stride, count, MPI_DOUBLE, block->below, 1, MPI_COMM_WORLD,
            &requests[1]);
  MPI_Isend(block->now + halo * stride, count, MPI_DOUBLE, block->above, 1, MPI_COMM_WORLD,
            &requests[2]);
  MPI_Isend(block->now + rows * stride, count, MPI_DOUBLE, block->below, 0, MPI_COMM_WORLD,
            &requests[3]);
  MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
}

/* Between H columns of the block, from `column` on, and a packed buffer. */
static void copy_columns(const struct block *block, size_t column, double *packed, int pack) {
  unsigned halo = (unsigned)block->options->halo;
  unsigned rows = (unsigned)block->options->rows + 2 * halo;
  unsigned stride = block->stride;
  double *columns = block->now + column;
  void *packing[] = {(void *)&packed, &halo, (void *)&columns, &stride, &rows, &halo};
  void *unpacking[] = {(void *)&columns, &stride, (void *)&packed, &halo, &rows, &halo};
  gpu_start(block->copy, rows * halo, pack ? packing : unpacking);
}

static void exchange_columns(struct block *block) {
  const struct options *options = block->options;
  size_t halo = (size_t)options->halo;
  int count = options->halo * (options->rows + 2 * options->halo);
  MPI_Request requests[4];
  copy_columns(block, halo, block->out[0], 1);
  copy_columns(block, (size_t)options->columns, block->out[1], 1);
  gpu_wait();
  MPI_Irecv(block->in[0], count, MPI_DOUBLE, block->left, 2, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(block->in[1], count, MPI_DOUBLE, block->right, 3, MPI_COMM_WORLD, &requests[1]);
  MPI_Isend(block->out[0], count, MPI_DOUBLE, block->left, 3, MPI_COMM_WORLD, &requests[2]);
  MPI_Isend(block->out[1], count, MPI_DOUBLE, block->right, 2, MPI_COMM_WORLD, &requests[3]);
  MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
  copy_columns(block, 0, block->in[0], 0);
  copy_columns(block, halo + (size_t)options->columns, block->in[1], 0);
}

/* H steps; step s leaves s + 1 points of the border behind. */
static void steps(struct block *block) {
  const struct options *options = block->options;
  double centre = WEIGHT_CENTRE;
  double side = WEIGHT_SIDE;
  double corner = WEIGHT_CORNER;
  for (int s = 0; s < options->halo; ++s) {
    unsigned border = (unsigned)s + 1;
    unsigned more = 2 * ((unsigned)options->halo - border);
    unsigned rows = (unsigned)options->rows + more;
    unsigned columns = (unsigned)options->columns + more;
    size_t first = (size_t)border * block->stride + border;
    double *out = block->next + first;
    double *in = block->now + first;
    void *arguments[] = {(void *)&out, (void *)&in, &block->stride, &rows,
                         &columns,     &centre,     &side,          &corner};
    gpu_start(block->stencil, rows * columns, arguments);
    double *swap = block->now;
    block->now = block->next;
    block->next = swap;
  }
  gpu_wait();
}

static double run(struct block *block) {
  MPI_Barrier(MPI_COMM_WORLD);
  double start = MPI_Wtime();
  for (int i = 0; i < block->options->iterations; ++i) {
    exchange_rows(block);
    exchange_columns(block);
    steps(block);
  }
  return MPI_Wtime() - start;
}

/* The same steps on the host alone, from a margin as wide as they reach. */
static double *expected_block(const struct block *block, int all_steps) {
  const struct options *options = block->options;
  size_t stride = (size_t)options->columns + 2 * (size_t)all_steps;
  size_t bytes = sizeof(double) * stride * ((size_t)options->rows + 2 * (size_t)all_steps);
  double *now = host_array(bytes);
  double *next = host_array(bytes);
  fill(block, now, all_steps, all_steps);
  for (int s = 1; s <= all_steps; ++s) {
    unsigned more = 2 * (unsigned)(all_steps - s);
    size_t first = (size_t)s * stride + (size_t)s;
    stencil_rows(next + first, now + first, stride, (unsigned)options->rows + more,
                 (unsigned)options->columns + more);
    double *swap = now;
    now = next;
    next = swap;
  }
  free(next);
  return now;
}

static int is_right(const struct block *block) {
  const struct options *options = block->options;
  int margin = options->halo * options->iterations;
  double *expected = expected_block(block, margin);
  double *found = host_array(block->bytes);
  gpu_get(found, block->now, block->bytes);
  size_t stride = (size_t)options->columns + 2 * (size_t)margin;
  int right = 1;
  for (size_t r = 0; r < (size_t)options->rows; ++r)
    for (size_t c = 0; c < (size_t)options->columns; ++c) {
      size_t halo = (size_t)options->halo;
      size_t there = (r + (size_t)margin) * stride + c + (size_t)margin;
      /* NOLINTNEXTLINE(clang-analyzer-security.ArrayBound): parse_options bounds both factors */
      double off = found[(r + halo) * block->stride + c + halo] - expected[there];
      right &= off < 1e-12 && off > -1e-12;
    }
  free(expected);
  free(found);
  return right;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  struct options options = parse_options(argc, argv);
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (options.grid[0] < 1 || options.grid[1] < 1 ||
      (long)options.grid[0] * options.grid[1] != ranks)
    run_fail("stencil2d: the grid does not have as many points as there are ranks");
  if (options.device)
    gpu_open();
  points_per_s = options.rate;
  struct block block = make_block(&options);
  double seconds = run(&block);
  run_print_time("stencil2d", seconds, options.iterations);
  run_verdict("stencil2d", is_right(&block));
  release_block(&block);
  MPI_Finalize();
  return 0;
}
