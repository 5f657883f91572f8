/* SPDX-License-Identifier: Apache-2.0 */
#include "device/affinity.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

typedef struct core_of {
    int package, core, cpu;
} core_of;

static int read_topology(int cpu, const char *what)
{
    char path[128];
    int value = 0;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/%s", cpu, what);
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    if (fscanf(file, "%d", &value) != 1) value = 0;
    fclose(file);
    return value;
}

static int by_core(const void *a, const void *b)
{
    const core_of *x = a, *y = b;
    if (x->package != y->package) return x->package < y->package ? -1 : 1;
    if (x->core != y->core) return x->core < y->core ? -1 : 1;
    return x->cpu < y->cpu ? -1 : x->cpu > y->cpu;
}

void tpi_affinity_get(tpi_cpus *out)
{
    cpu_set_t set;
    core_of cores[TPI_MAX_CPUS];
    size_t n = 0;
    memset(out, 0, sizeof *out);                             /* whole: ranks exchange it */
    if (sched_getaffinity(0, sizeof set, &set) != 0) return; /* more CPUs than a cpu_set_t holds */
    for (int cpu = 0; cpu < CPU_SETSIZE && cpu < TPI_MAX_CPUS; cpu++)
        if (CPU_ISSET(cpu, &set))
            cores[n++] = (core_of){read_topology(cpu, "physical_package_id"),
                                   read_topology(cpu, "core_id"), cpu};
    qsort(cores, n, sizeof cores[0], by_core);
    for (size_t i = 0; i < n; i++) out->cpu[i] = cores[i].cpu;
    out->n = (int)n;
}

static bool equal(const tpi_cpus *a, const tpi_cpus *b)
{
    return a->n == b->n && memcmp(a->cpu, b->cpu, (size_t)a->n * sizeof a->cpu[0]) == 0;
}

static bool overlap(const tpi_cpus *a, const tpi_cpus *b)
{
    for (int i = 0; i < a->n; i++)
        for (int j = 0; j < b->n; j++)
            if (a->cpu[i] == b->cpu[j]) return true;
    return false;
}

static void slice(const tpi_cpus *masks, int local_size, int rank, tpi_cpus *out)
{
    const tpi_cpus *mask = &masks[rank];
    int peers = 0, place = 0; /* among the ranks with the same mask */
    for (int q = 0; q < local_size; q++) {
        if (!equal(mask, &masks[q])) continue;
        place += q < rank;
        peers++;
    }
    int from = (int)((long long)place * mask->n / peers);
    int to = (int)((long long)(place + 1) * mask->n / peers);
    if (to == from && mask->n > 0) to = from + 1;
    memset(out, 0, sizeof *out);
    for (int i = from; i < to; i++) out->cpu[out->n++] = mask->cpu[i];
}

void tpi_affinity_plan(const tpi_cpus *masks, int local_size, int local_rank, tpi_cpus *mine,
                       bool *shared)
{
    tpi_cpus other;
    slice(masks, local_size, local_rank, mine);
    *shared = false;
    for (int q = 0; q < local_size && !*shared; q++) {
        if (q == local_rank) continue;
        slice(masks, local_size, q, &other);
        *shared = overlap(mine, &other);
    }
}

static void bind_inheritors(const cpu_set_t *before, const cpu_set_t *after)
{
    DIR *tasks = opendir("/proc/self/task");
    if (!tasks) return;
    for (const struct dirent *entry = readdir(tasks); entry; entry = readdir(tasks)) {
        const pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10); /* "." and ".." give 0 */
        cpu_set_t now;
        if (tid > 0 && sched_getaffinity(tid, sizeof now, &now) == 0 && CPU_EQUAL(&now, before))
            sched_setaffinity(tid, sizeof *after, after); /* fails only if it has just ended */
    }
    closedir(tasks);
}

tpcl_status tpi_affinity_bind(const tpi_cpus *cpus)
{
    tpcl_status status = TPCL_OK;
    cpu_set_t before, after;
    CPU_ZERO(&after);
    for (int i = 0; i < cpus->n; i++)
        if (cpus->cpu[i] >= 0 && cpus->cpu[i] < CPU_SETSIZE) CPU_SET(cpus->cpu[i], &after);
    TPI_REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0, TPCL_ERR_UNSUPPORTED,
                "the affinity mask cannot be read: %s", strerror(errno));
    TPI_REQUIRE(sched_setaffinity(0, sizeof after, &after) == 0, TPCL_ERR_UNSUPPORTED,
                "binding to %d CPUs from CPU %d on is refused: %s", cpus->n, cpus->cpu[0],
                strerror(errno));
    bind_inheritors(&before, &after);
done:
    return status;
}
