/* Interrupts, crash breadcrumbs, and what a process that ends too early still does. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_SIGNALS_H
#define TOOLS_SIGNALS_H

/* SIGINT and SIGTERM set the flag; a second one ends the process at once. SIGABRT, SIGSEGV, SIGBUS,
 * SIGFPE and SIGILL write one line and take their default action. Call it after MPI_Init, and again
 * when a driver has compiled: UCX, the launcher and LLVM install handlers of their own. */
void signals_install(void);
const volatile int *signals_interrupt_flag(void);

/* What this process does now, for the breadcrumb; a literal. */
void signals_phase(const char *phase);

/* A file to remove if the process ends early; NULL = none. The text must stay. */
void signals_temporary(const char *path);

/* From here on, exit() says that this rank left before the end. */
void signals_watch_exit(void);
/* From here on leaving is in order. */
void signals_finished(void);

#endif
