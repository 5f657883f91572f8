/* The launcher's side: are we inside one, and starting one ourselves. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_LAUNCH_H
#define TOOLS_LAUNCH_H

#include <stdbool.h>

/* Whether an MPI launcher started this process, and as which rank (-1 outside). */
bool launch_inside(void);
int launch_rank(void);

/* Whether the user looks at these streams, also through a launcher's pipes. Our own front end tells
 * its ranks with TPCL_TTY: 1 = stderr, 2 = stdout, 3 = both, 0 = neither. */
bool launch_stderr_is_terminal(void);
/* Under a foreign launcher nobody can know; then true, which only costs control characters. */
bool launch_stdout_may_be_terminal(void);

/* Runs this program again as `mpiexec -n ranks` and returns the job's exit code. */
int launch_mpiexec(int ranks, char **argv);

#endif
