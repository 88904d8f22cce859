/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What asking.c finds next. */
int asked_for(void);
int asked_for(void) { return 2; }
