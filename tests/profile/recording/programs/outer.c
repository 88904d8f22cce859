/* SPDX-License-Identifier: MIT OR Apache-2.0 */
int f(void);
int main(void) { return f(); }
