/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The two kernels of stencil2d as PTX: a nine-point step, and a copy between row lengths. */
#ifndef TOPOSEAT_EXAMPLES_STENCIL2D_KERNELS_H
#define TOPOSEAT_EXAMPLES_STENCIL2D_KERNELS_H

#define WEIGHT_CENTRE 0.25
#define WEIGHT_SIDE 0.15
#define WEIGHT_CORNER 0.0375

/* Thread number -> (%r9, %r10) = (row, column) of a rectangle of rows x columns. */
#define THREAD_TO_POINT                                                                            \
  "  mov.u32 %r3, %ctaid.x;\n"                                                                     \
  "  mov.u32 %r4, %ntid.x;\n"                                                                      \
  "  mov.u32 %r5, %tid.x;\n"                                                                       \
  "  mad.lo.u32 %r6, %r3, %r4, %r5;\n"                                                             \
  "  mul.lo.u32 %r8, %r1, %r2;\n"                                                                  \
  "  setp.ge.u32 %p, %r6, %r8;\n"                                                                  \
  "  @%p bra DONE;\n"                                                                              \
  "  div.u32 %r9, %r6, %r2;\n"                                                                     \
  "  rem.u32 %r10, %r6, %r2;\n"

#define REGISTERS                                                                                  \
  "  .reg .pred %p;\n"                                                                             \
  "  .reg .b32 %r<16>;\n"                                                                          \
  "  .reg .b64 %rd<12>;\n"                                                                         \
  "  .reg .f64 %f<16>;\n"

static const char ptx[] =
    ".version 6.0\n"
    ".target sm_35\n"
    ".address_size 64\n"
    ".visible .entry stencil9(.param .u64 out, .param .u64 in, .param .u32 stride,\n"
    "  .param .u32 rows, .param .u32 columns,\n"
    "  .param .f64 centre, .param .f64 side, .param .f64 corner)\n"
    "{\n" REGISTERS "  ld.param.u64 %rd1, [out];\n"
    "  ld.param.u64 %rd2, [in];\n"
    "  ld.param.u32 %r11, [stride];\n"
    "  ld.param.u32 %r1, [rows];\n"
    "  ld.param.u32 %r2, [columns];\n"
    "  ld.param.f64 %f1, [centre];\n"
    "  ld.param.f64 %f2, [side];\n"
    "  ld.param.f64 %f3, [corner];\n"
    "  cvta.to.global.u64 %rd1, %rd1;\n"
    "  cvta.to.global.u64 %rd2, %rd2;\n" THREAD_TO_POINT "  mad.lo.u32 %r12, %r9, %r11, %r10;\n"
    "  mul.wide.u32 %rd3, %r12, 8;\n"
    "  mul.wide.u32 %rd4, %r11, 8;\n"
    "  add.u64 %rd5, %rd2, %rd3;\n"
    "  add.u64 %rd6, %rd1, %rd3;\n"
    "  sub.u64 %rd7, %rd5, %rd4;\n"
    "  add.u64 %rd8, %rd5, %rd4;\n"
    "  ld.global.f64 %f4, [%rd7];\n"
    "  ld.global.f64 %f5, [%rd8];\n"
    "  ld.global.f64 %f6, [%rd5+-8];\n"
    "  ld.global.f64 %f7, [%rd5+8];\n"
    "  add.f64 %f4, %f4, %f5;\n"
    "  add.f64 %f4, %f4, %f6;\n"
    "  add.f64 %f4, %f4, %f7;\n"
    "  ld.global.f64 %f8, [%rd7+-8];\n"
    "  ld.global.f64 %f9, [%rd7+8];\n"
    "  ld.global.f64 %f10, [%rd8+-8];\n"
    "  ld.global.f64 %f11, [%rd8+8];\n"
    "  add.f64 %f8, %f8, %f9;\n"
    "  add.f64 %f8, %f8, %f10;\n"
    "  add.f64 %f8, %f8, %f11;\n"
    "  ld.global.f64 %f12, [%rd5];\n"
    "  mul.rn.f64 %f12, %f12, %f1;\n"
    "  mul.rn.f64 %f4, %f4, %f2;\n"
    "  mul.rn.f64 %f8, %f8, %f3;\n"
    "  add.f64 %f12, %f12, %f4;\n"
    "  add.f64 %f12, %f12, %f8;\n"
    "  st.global.f64 [%rd6], %f12;\n"
    "DONE:\n"
    "  ret;\n"
    "}\n"
    ".visible .entry copy_block(.param .u64 out, .param .u32 out_stride,\n"
    "  .param .u64 in, .param .u32 in_stride, .param .u32 rows, .param .u32 columns)\n"
    "{\n" REGISTERS "  ld.param.u64 %rd1, [out];\n"
    "  ld.param.u32 %r11, [out_stride];\n"
    "  ld.param.u64 %rd2, [in];\n"
    "  ld.param.u32 %r12, [in_stride];\n"
    "  ld.param.u32 %r1, [rows];\n"
    "  ld.param.u32 %r2, [columns];\n"
    "  cvta.to.global.u64 %rd1, %rd1;\n"
    "  cvta.to.global.u64 %rd2, %rd2;\n" THREAD_TO_POINT "  mad.lo.u32 %r13, %r9, %r11, %r10;\n"
    "  mad.lo.u32 %r14, %r9, %r12, %r10;\n"
    "  mul.wide.u32 %rd3, %r13, 8;\n"
    "  mul.wide.u32 %rd4, %r14, 8;\n"
    "  add.u64 %rd5, %rd1, %rd3;\n"
    "  add.u64 %rd6, %rd2, %rd4;\n"
    "  ld.global.f64 %f1, [%rd6];\n"
    "  st.global.f64 [%rd5], %f1;\n"
    "DONE:\n"
    "  ret;\n"
    "}\n";

#endif
