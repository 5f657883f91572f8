/* SPDX-License-Identifier: Apache-2.0 */
/* Which device each local rank gets, on made-up lists. No OpenCL call is made. */
#include "tpcl_test.h"

#include <string.h>

#include "device/list.h"
#include "device/select.h"

#define NV "NVIDIA CUDA"
#define POCL "Portable Computing Language"
#define ICL "Intel(R) OpenCL"

typedef struct made_up {
    const char *name, *vendor, *platform;
    int platform_place;
    tpcl_device_type type;
    uint32_t vendor_id;
    int bus; /* PCI; -1 = not told */
    bool unusable;
} made_up;

/* In the loader's order, as a driver would list them. */
static const made_up cpu_only[] = {
    {"pthread-skylake", "GenuineIntel", POCL, 0, TPCL_DEVICE_CPU, 1, -1, 0}};
static const made_up two_cpus_one_driver[] = {
    {"pthread-skylake", "GenuineIntel", POCL, 0, TPCL_DEVICE_CPU, 1, -1, 0},
    {"pthread-skylake", "GenuineIntel", POCL, 0, TPCL_DEVICE_CPU, 1, -1, 0}};
static const made_up cpu_three_drivers[] = {
    {"pthread-skylake", "GenuineIntel", POCL, 0, TPCL_DEVICE_CPU, 1, -1, 0},
    {"Intel(R) Xeon(R)", "Intel(R) Corporation", ICL, 1, TPCL_DEVICE_CPU, 2, -1, 0},
    {"llvmpipe (LLVM 15.0.6, 256 bits)", "Mesa/X.org", "rusticl", 2, TPCL_DEVICE_CPU, 0, -1, 0}};
/* A desktop: CPU driver first, an integrated GPU under two drivers, two unlike cards. */
static const made_up desktop[] = {
    {"pthread-skylake", "GenuineIntel", POCL, 0, TPCL_DEVICE_CPU, 0x8086, -1, 0},
    {"Intel(R) UHD Graphics 620", "Intel(R) Corporation", "Intel(R) OpenCL HD Graphics", 1,
     TPCL_DEVICE_INTEGRATED_GPU, 0x8086, -1, 0},
    {"Mesa Intel(R) UHD Graphics 620 (KBL GT2)", "Intel", "rusticl", 2, TPCL_DEVICE_INTEGRATED_GPU,
     0x8086, -1, 0},
    {"AMD Radeon RX 580", "AMD", "rusticl", 2, TPCL_DEVICE_GPU, 0x1002, 9, 0},
    {"Tesla T4", "NVIDIA Corporation", NV, 3, TPCL_DEVICE_GPU, 0x10de, 4, 0},
    {"gfx803", "Advanced Micro Devices, Inc.", "AMD Accelerated Parallel Processing", 4,
     TPCL_DEVICE_GPU, 0x1002, 9, 0}};
/* Two equal cards under two drivers that tell no bus address. */
static const made_up twins[] = {
    {"RX 580", "AMD", "A", 0, TPCL_DEVICE_GPU, 0x1002, -1, 0},
    {"RX 580", "AMD", "A", 0, TPCL_DEVICE_GPU, 0x1002, -1, 0},
    {"RX 580 (polaris10)", "AMD", "B", 1, TPCL_DEVICE_GPU, 0x1002, -1, 0},
    {"RX 580 (polaris10)", "AMD", "B", 1, TPCL_DEVICE_GPU, 0x1002, -1, 0}};
/* One name, other makers: no bus address, so two devices. */
static const made_up namesakes[] = {
    {"Graphics", "A", "A", 0, TPCL_DEVICE_GPU, 1, -1, 0},
    {"Graphics", "B", "B", 1, TPCL_DEVICE_GPU, 2, -1, 0},
};
static const made_up broken[] = {
    {"Tesla T4", "NVIDIA", NV, 0, TPCL_DEVICE_GPU, 0x10de, 4, true},
    {"Tesla T4", "NVIDIA", "rusticl", 1, TPCL_DEVICE_GPU, 0x10de, 4, 0},
    {"FPGA", "X", "X", 2, TPCL_DEVICE_ACCELERATOR, 7, -1, true},
    {"pthread", "GenuineIntel", POCL, 3, TPCL_DEVICE_CPU, 1, -1, 0}};

enum { MAX = 8 };

static void arrange(const made_up *m, int n, tpcl_device_info *out)
{
    tpi_device_entry e[MAX];
    memset(e, 0, sizeof e);
    for (int i = 0; i < n; i++) {
        snprintf(e[i].info.name, sizeof e[i].info.name, "%s", m[i].name);
        snprintf(e[i].info.vendor, sizeof e[i].info.vendor, "%s", m[i].vendor);
        snprintf(e[i].info.platform, sizeof e[i].info.platform, "%s", m[i].platform);
        e[i].info.type = m[i].type;
        e[i].info.usable = !m[i].unusable;
        e[i].platform_place = m[i].platform_place;
        e[i].place = i;
        e[i].vendor_id = m[i].vendor_id;
        if (m[i].bus >= 0) e[i].pci = (tpi_pci_address){true, 0, (uint32_t)m[i].bus, 0, 0};
    }
    tpi_device_arrange(e, n);
    for (int i = 0; i < n; i++) out[i] = e[i].info;
}

#define L(list) list, (int)COUNT(list)

/* After sorting, `desktop` is 0 RX 580 (rusticl), 1 T4, 2 gfx803 = 0, 3 UHD, 4 Mesa UHD = 3, 5 CPU.
 */
static const struct choice {
    const char *why;
    const made_up *list;
    int n;
    const char *select;
    int want[4]; /* per local rank */
} choices[] = {
    {"one CPU serves every rank", L(cpu_only), NULL, {0, 0, 0, 0}},
    {"empty selector is the default", L(cpu_only), "", {0, 0, 0, 0}},
    {"blanks are empty", L(cpu_only), "  ", {0, 0, 0, 0}},
    {"two devices of one driver are two", L(two_cpus_one_driver), NULL, {0, 1, 0, 1}},
    {"one CPU under three drivers is one", L(cpu_three_drivers), NULL, {0, 0, 0, 0}},
    {"the other driver on request", L(cpu_three_drivers), "intel(r) opencl", {1, 1, 1, 1}},
    {"vendor, any case", L(cpu_three_drivers), "MESA", {2, 2, 2, 2}},
    {"pocl is an alias", L(cpu_three_drivers), "PoCL", {0, 0, 0, 0}},
    {"type word counts the CPU once", L(cpu_three_drivers), "CPU", {0, 0, 0, 0}},
    {"index of a duplicate is honoured", L(cpu_three_drivers), "1,2", {1, 2, 1, 2}},
    {"default: GPUs, duplicates skipped, no CPU", L(desktop), NULL, {0, 1, 3, 0}},
    {"gpu: both kinds", L(desktop), "gpu", {0, 1, 3, 0}},
    {"igpu", L(desktop), "igpu", {3, 3, 3, 3}},
    {"cpu where there are GPUs", L(desktop), "cpu", {5, 5, 5, 5}},
    {"later driver by platform", L(desktop), "accelerated parallel", {2, 2, 2, 2}},
    {"substring over several devices", L(desktop), "rusticl", {0, 4, 0, 4}},
    {"list shorter than the ranks wraps", L(desktop), "1, 5", {1, 5, 1, 5}},
    {"same word of a list moves on", L(desktop), "cpu,gpu,GPU", {5, 0, 1, 5}},
    {"list longer than the ranks", L(desktop), "0,0,1,1,3,3", {0, 0, 1, 1}},
    {"equal cards pair one to one", L(twins), NULL, {0, 1, 0, 1}},
    {"one name, two makers", L(namesakes), NULL, {0, 1, 0, 1}},
    {"unusable first driver: the second serves", L(broken), NULL, {1, 1, 1, 1}},
    {"unusable one is no match of a word", L(broken), "tesla", {1, 1, 1, 1}},
};

static void chooses(void **state)
{
    const struct choice *c = *state;
    tpcl_device_info list[MAX];
    arrange(c->list, c->n, list);
    for (int rank = 0; rank < 4; rank++) {
        int got = -2;
        assert_ok(tpi_device_choose(list, c->n, c->select, rank, &got));
        assert_int_equal(got, c->want[rank]);
    }
}

static const struct refusal {
    const char *why;
    const made_up *list;
    int n;
    const char *select;
    int rank;
    tpcl_status status;
    const char *words[3]; /* all in the message */
} refusals[] = {
    {"no device at all",
     cpu_only,
     0,
     NULL,
     0,
     TPCL_ERR_NO_DEVICE,
     {"no OpenCL device", "install", ""}},
    {"no device, index", cpu_only, 0, "0", 0, TPCL_ERR_NO_DEVICE, {"no OpenCL device", "", ""}},
    {"index beyond",
     L(cpu_only),
     "7",
     0,
     TPCL_ERR_NO_DEVICE,
     {"device 7", "0: pthread-skylake", "CPU"}},
    {"first index beyond", L(cpu_only), "1", 0, TPCL_ERR_NO_DEVICE, {"device 1", "0: pthread", ""}},
    {"absurd index",
     L(cpu_only),
     "99999999999999999999999",
     0,
     TPCL_ERR_NO_DEVICE,
     {"0: pthread", "", ""}},
    {"negative index", L(cpu_only), "-1", 0, TPCL_ERR_NO_DEVICE, {"'-1'", "0: pthread", ""}},
    {"no match",
     L(desktop),
     "voodoo",
     0,
     TPCL_ERR_NO_DEVICE,
     {"'voodoo'", "Tesla T4", "integrated GPU"}},
    {"type not there", L(desktop), "accelerator", 0, TPCL_ERR_NO_DEVICE, {"'accelerator'", "", ""}},
    {"no igpu", L(cpu_only), "igpu", 0, TPCL_ERR_NO_DEVICE, {"'igpu'", "", ""}},
    {"second entry of a list",
     L(cpu_only),
     "0,gpu",
     1,
     TPCL_ERR_NO_DEVICE,
     {"'gpu'", "0: pthread", ""}},
    {"unusable by index",
     L(broken),
     "0",
     0,
     TPCL_ERR_NO_DEVICE,
     {"device 0", "no compiler", "not usable"}},
    {"unusable by name", L(broken), "fpga", 0, TPCL_ERR_NO_DEVICE, {"'fpga'", "no compiler", ""}},
    {"hole in a list", L(cpu_only), "0,,0", 1, TPCL_ERR_ARG, {"empty entry", "0,,0", ""}},
    {"negative rank", L(cpu_only), NULL, -1, TPCL_ERR_ARG, {"local rank -1", "", ""}},
};

static void refuses(void **state)
{
    const struct refusal *r = *state;
    tpcl_device_info list[MAX];
    int got = 99;
    arrange(r->list, r->n, list);
    assert_int_equal(tpi_device_choose(list, r->n, r->select, r->rank, &got), r->status);
    assert_int_equal(got, -1);
    for (size_t w = 0; w < COUNT(r->words); w++)
        if (!strstr(tpcl_last_error(), r->words[w]))
            fail_msg("'%s' is not in: %s", r->words[w], tpcl_last_error());
    assert_null(strchr(tpcl_last_error(), '\n'));
}

static void order_and_duplicates(void **state)
{
    (void)state;
    static const char *const names[] = {"AMD Radeon RX 580",
                                        "Tesla T4",
                                        "gfx803",
                                        "Intel(R) UHD Graphics 620",
                                        "Mesa Intel(R) UHD Graphics 620 (KBL GT2)",
                                        "pthread-skylake"};
    static const int same[] = {-1, -1, 0, -1, 3, -1};
    tpcl_device_info list[MAX];
    arrange(L(desktop), list);
    for (int i = 0; i < (int)COUNT(desktop); i++) {
        assert_string_equal(list[i].name, names[i]);
        assert_int_equal(list[i].index, i);
        assert_int_equal(list[i].same_as, same[i]);
    }
    static const int twin[] = {-1, -1, 0, 1};
    arrange(L(twins), list);
    for (int i = 0; i < (int)COUNT(twins); i++) assert_int_equal(list[i].same_as, twin[i]);
    static const int cpus[] = {-1, 0, 0};
    arrange(L(cpu_three_drivers), list);
    for (int i = 0; i < 3; i++) assert_int_equal(list[i].same_as, cpus[i]);
}

/* The message is cut at a whole entry, however many and long the names are. */
static void long_list_is_cut(void **state)
{
    (void)state;
    static tpcl_device_info list[64];
    int got;
    for (int i = 0; i < 64; i++) {
        memset(list[i].name, 'n', sizeof list[i].name - 1);
        list[i].type = TPCL_DEVICE_GPU;
        list[i].usable = true;
        list[i].same_as = -1;
    }
    assert_int_equal(tpi_device_choose(list, 64, "64", 0, &got), TPCL_ERR_NO_DEVICE);
    const char *message = tpcl_last_error();
    assert_string_equal(message + strlen(message) - 5, "; ...");
}

int main(void)
{
    struct CMUnitTest tests[COUNT(choices) + COUNT(refusals) + 2];
    size_t n = 0;
    for (size_t i = 0; i < COUNT(choices); i++)
        tests[n++] = (struct CMUnitTest){
            .name = choices[i].why, .test_func = chooses, .initial_state = (void *)&choices[i]};
    for (size_t i = 0; i < COUNT(refusals); i++)
        tests[n++] = (struct CMUnitTest){
            .name = refusals[i].why, .test_func = refuses, .initial_state = (void *)&refusals[i]};
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(order_and_duplicates);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(long_list_is_cut);
    return cmocka_run_group_tests_name("device/select", tests, NULL, NULL);
}
