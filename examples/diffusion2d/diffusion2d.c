/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Diffusion on a 2-D domain in strips of rows, as the mini-apps of HPC courses have it: explicit
 * five-point steps, one halo row to the rank above and one to the rank below per step, straight
 * from GPU memory. The result is checked against the same steps on one host.
 */
#include "../gpu/gpu.h"
#include "../gpu/run.h"

static const char usage[] =
    "usage: diffusion2d [--columns N] [--rows N-PER-RANK] [--iterations N] [--device]";

#define COEFFICIENT 0.2
#define DIFFUSE "diffuse"

/* One thread per inner point: out = in + c * (sum of the four neighbours - 4 * in). */
static const char ptx[] = ".version 6.0\n"
                          ".target sm_35\n"
                          ".address_size 64\n"
                          ".visible .entry diffuse(.param .u64 out, .param .u64 in,\n"
                          "  .param .u32 rows, .param .u32 columns, .param .f64 coefficient)\n"
                          "{\n"
                          "  .reg .pred %p;\n"
                          "  .reg .b32 %r<12>;\n"
                          "  .reg .b64 %rd<12>;\n"
                          "  .reg .f64 %f<10>;\n"
                          "  ld.param.u64 %rd1, [out];\n"
                          "  ld.param.u64 %rd2, [in];\n"
                          "  ld.param.u32 %r1, [rows];\n"
                          "  ld.param.u32 %r2, [columns];\n"
                          "  ld.param.f64 %f1, [coefficient];\n"
                          "  cvta.to.global.u64 %rd1, %rd1;\n"
                          "  cvta.to.global.u64 %rd2, %rd2;\n"
                          "  mov.u32 %r3, %ctaid.x;\n"
                          "  mov.u32 %r4, %ntid.x;\n"
                          "  mov.u32 %r5, %tid.x;\n"
                          "  mad.lo.u32 %r6, %r3, %r4, %r5;\n"
                          "  sub.u32 %r7, %r2, 2;\n"
                          "  mul.lo.u32 %r8, %r1, %r7;\n"
                          "  setp.ge.u32 %p, %r6, %r8;\n"
                          "  @%p bra DONE;\n"
                          "  div.u32 %r9, %r6, %r7;\n"
                          "  rem.u32 %r10, %r6, %r7;\n"
                          "  add.u32 %r9, %r9, 1;\n"
                          "  add.u32 %r10, %r10, 1;\n"
                          "  mad.lo.u32 %r11, %r9, %r2, %r10;\n"
                          "  mul.wide.u32 %rd3, %r11, 8;\n"
                          "  mul.wide.u32 %rd4, %r2, 8;\n"
                          "  add.u64 %rd5, %rd2, %rd3;\n"
                          "  add.u64 %rd6, %rd1, %rd3;\n"
                          "  sub.u64 %rd7, %rd5, %rd4;\n"
                          "  add.u64 %rd8, %rd5, %rd4;\n"
                          "  ld.global.f64 %f2, [%rd5];\n"
                          "  ld.global.f64 %f3, [%rd7];\n"
                          "  ld.global.f64 %f4, [%rd8];\n"
                          "  ld.global.f64 %f5, [%rd5+-8];\n"
                          "  ld.global.f64 %f6, [%rd5+8];\n"
                          "  add.f64 %f3, %f3, %f4;\n"
                          "  add.f64 %f3, %f3, %f5;\n"
                          "  add.f64 %f3, %f3, %f6;\n"
                          "  mov.f64 %f7, 0d4010000000000000;\n"
                          "  mul.rn.f64 %f8, %f2, %f7;\n"
                          "  sub.f64 %f3, %f3, %f8;\n"
                          "  mul.rn.f64 %f3, %f3, %f1;\n"
                          "  add.f64 %f9, %f2, %f3;\n"
                          "  st.global.f64 [%rd6], %f9;\n"
                          "DONE:\n"
                          "  ret;\n"
                          "}\n";

struct options {
  int columns;
  int rows; /* per rank */
  int iterations;
  int device;
};

struct strip {
  int rank;
  int ranks;
  size_t row_bytes;
  double *now; /* rows + 2 rows: the first and the last are halos */
  double *next;
  struct gpu_kernel diffuse;
};

/* One step on `rows` inner rows; both arrays have a row before and one after them. */
static void diffuse_rows(double *out, const double *in, unsigned rows, unsigned columns,
                         double coefficient) {
  for (unsigned r = 1; r <= rows; ++r)
    for (unsigned c = 1; c + 1 < columns; ++c) {
      const double *at = in + (size_t)r * columns + c;
      double around = at[-(long)columns] + at[columns] + at[-1] + at[1];
      out[(size_t)r * columns + c] = *at + coefficient * (around - 4 * *at);
    }
}

double toposeat_host_diffuse(void **arguments, const unsigned grid[3], const unsigned block[3]);

double toposeat_host_diffuse(void **arguments, const unsigned grid[3], const unsigned block[3]) {
  (void)grid;
  (void)block;
  unsigned rows = *(unsigned *)arguments[2];
  unsigned columns = *(unsigned *)arguments[3];
  size_t bytes = sizeof(double) * ((size_t)rows + 2) * columns;
  diffuse_rows(gpu_reach(arguments, 0, bytes), gpu_reach(arguments, 1, bytes), rows, columns,
               *(double *)arguments[4]);
  return 0;
}

static struct options parse_options(int argc, char **argv) {
  struct options options = {.columns = 4096, .rows = 32, .iterations = 10};
  for (int i = 1; i < argc; ++i) {
    const char *name = argv[i];
    const char *value = i + 1 < argc ? argv[i + 1] : "";
    if (strcmp(name, "--device") == 0)
      options.device = 1;
    else if (strcmp(name, "--columns") == 0 && ++i)
      options.columns = run_number(value, usage);
    else if (strcmp(name, "--rows") == 0 && ++i)
      options.rows = run_number(value, usage);
    else if (strcmp(name, "--iterations") == 0 && ++i)
      options.iterations = run_number(value, usage);
    else
      run_fail(usage);
  }
  if (options.columns < 3)
    run_fail("diffusion2d: at least 3 columns");
  return options;
}

/* The start: anything that is different everywhere. `row` counts from the top of the domain. */
static double start_value(long row, long column) {
  return (double)((row * 7919 + column * 104729) % 1000) / 1000;
}

static void fill_rows(double *values, long first_row, int rows, int columns) {
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c)
      values[(size_t)r * (size_t)columns + (size_t)c] = start_value(first_row + r, c);
}

static double *host_array(size_t bytes) {
  double *values = malloc(bytes);
  if (values == NULL)
    run_fail("diffusion2d: out of memory");
  return values;
}

static struct strip make_strip(const struct options *options) {
  struct strip strip = {.row_bytes = sizeof(double) * (size_t)options->columns};
  size_t bytes = strip.row_bytes * ((size_t)options->rows + 2);
  MPI_Comm_rank(MPI_COMM_WORLD, &strip.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &strip.ranks);
  strip.now = gpu_allocate(bytes);
  strip.next = gpu_allocate(bytes);
  strip.diffuse = gpu_kernel(ptx, DIFFUSE, toposeat_host_diffuse);
  double *host = host_array(bytes);
  fill_rows(host, (long)strip.rank * options->rows, options->rows + 2, options->columns);
  gpu_put(strip.now, host, bytes);
  gpu_put(strip.next, host, bytes); /* the borders of the domain stay as they are */
  free(host);
  return strip;
}

static void exchange(const struct options *options, const struct strip *strip) {
  size_t row = (size_t)options->columns;
  size_t rows = (size_t)options->rows;
  int above = strip->rank > 0 ? strip->rank - 1 : MPI_PROC_NULL;
  int below = strip->rank + 1 < strip->ranks ? strip->rank + 1 : MPI_PROC_NULL;
  MPI_Request requests[4];
  MPI_Irecv(strip->now, options->columns, MPI_DOUBLE, above, 0, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(strip->now + (rows + 1) * row, options->columns, MPI_DOUBLE, below, 1, MPI_COMM_WORLD,
            &requests[1]);
  MPI_Isend(strip->now + row, options->columns, MPI_DOUBLE, above, 1, MPI_COMM_WORLD, &requests[2]);
  MPI_Isend(strip->now + rows * row, options->columns, MPI_DOUBLE, below, 0, MPI_COMM_WORLD,
            &requests[3]);
  MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
}

static void step(const struct options *options, struct strip *strip) {
  double *out = strip->next;
  double *in = strip->now;
  unsigned rows = (unsigned)options->rows;
  unsigned columns = (unsigned)options->columns;
  double coefficient = COEFFICIENT;
  void *arguments[] = {(void *)&out, (void *)&in, &rows, &columns, &coefficient};
  gpu_start(strip->diffuse, rows * (columns - 2), arguments);
  gpu_wait();
  strip->now = out;
  strip->next = in;
}

static double run(const struct options *options, struct strip *strip) {
  MPI_Barrier(MPI_COMM_WORLD);
  double start = MPI_Wtime();
  for (int i = 0; i < options->iterations; ++i) {
    exchange(options, strip);
    step(options, strip);
  }
  return MPI_Wtime() - start;
}

/* The strip on the host alone, from as many rows around it as steps can reach. */
static int is_right(const struct options *options, const struct strip *strip) {
  long all = (long)strip->ranks * options->rows + 2; /* rows of the domain with its borders */
  long first = (long)strip->rank * options->rows - options->iterations;
  long last = (long)(strip->rank + 1) * options->rows + 1 + options->iterations;
  long from = first < 0 ? 0 : first;
  long to = last >= all ? all - 1 : last;
  size_t row = (size_t)options->columns;
  size_t bytes = (size_t)(to - from + 1) * strip->row_bytes;
  double *now = host_array(bytes);
  double *next = host_array(bytes);
  fill_rows(now, from, (int)(to - from + 1), options->columns);
  memcpy(next, now, bytes);
  for (int i = 0; i < options->iterations; ++i) {
    diffuse_rows(next, now, (unsigned)(to - from - 1), (unsigned)options->columns, COEFFICIENT);
    double *swap = now;
    now = next;
    next = swap;
  }
  double *found = host_array(strip->row_bytes * (size_t)options->rows);
  gpu_get(found, strip->now + row, strip->row_bytes * (size_t)options->rows);
  const double *expected = now + (size_t)((long)strip->rank * options->rows + 1 - from) * row;
  int right = 1;
  for (size_t i = 0; i < (size_t)options->rows * row; ++i) {
    double off = found[i] - expected[i];
    right &= off < 1e-12 && off > -1e-12;
  }
  free(now);
  free(next);
  free(found);
  return right;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  struct options options = parse_options(argc, argv);
  if (options.device)
    gpu_open();
  struct strip strip = make_strip(&options);
  double seconds = run(&options, &strip);
  run_print_time("diffusion2d", seconds, options.iterations);
  run_verdict("diffusion2d", is_right(&options, &strip));
  gpu_release(strip.now);
  gpu_release(strip.next);
  MPI_Finalize();
  return 0;
}
