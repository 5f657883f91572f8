/* tpcl-bench report: one page, and plots, of the rows of several runs. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

/* argv[0] is "report". Returns the exit code. */
int bench_report(int argc, char **argv);

#endif
