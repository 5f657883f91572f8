/* Every collective against a serial computation, bit for bit, on both transports. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "comm_test.h"

enum { MOST_RANKS = 8, GUARD = 4 };
static const unsigned char guard_byte = 0xA5;

struct set_up {
    const char *name;
    int random; /* operations of the random sequence */
    tpcl_comm_options options;
};

static const struct set_up set_ups[] = {
    {"window_small_chunk",
     2000,
     {.chunk_bytes = 4096, .timeout_s = 20}}, /* boundaries come early */
    {"window_default", 300, {.timeout_s = 20}},
    {"window_odd_chunk", 300, {.chunk_bytes = 4000, .timeout_s = 20}}, /* rounded to cache lines */
    {"window_sliced_chunk",
     300,
     {.chunk_bytes = 49152, .timeout_s = 20}}, /* sums in slices, chunked */
    {"mpi_small_chunk", 2000, {.chunk_bytes = 4096, .timeout_s = 20, .force_mpi = true}},
    {"mpi_default", 300, {.timeout_s = 20, .force_mpi = true}},
};

static tpcl_comm *comm; /* of the set-up in progress */

static int open_set_up(void **state)
{
    const struct set_up *s = *state;
    return tpcl_comm_create(MPI_COMM_WORLD, &s->options, &comm) == TPCL_OK ? 0 : -1;
}

static int close_set_up(void **state)
{
    (void)state;
    tpcl_comm_destroy(&comm);
    return comm ? -1 : 0;
}

/* Memory with a guard behind it. */
static void *guarded(size_t bytes)
{
    unsigned char *p = malloc(bytes + GUARD);
    assert_non_null(p);
    memset(p + bytes, guard_byte, GUARD);
    return p;
}

static void check_guard(const void *p, size_t bytes)
{
    const unsigned char *guard = (const unsigned char *)p + bytes;
    for (int i = 0; i < GUARD; i++) assert_int_equal(guard[i], guard_byte);
}

/* What rank r brings. fill() alone gives multiples of 2^-23, whose sums are exact in any order;
 * with exponents of their own the order of additions shows. */
static void contribution(float *v, size_t n, uint32_t seed, int rank)
{
    seed = seed * 131u + (uint32_t)rank * 65537u;
    fill(v, n, seed);
    for (size_t i = 0; i < n; i++) v[i] = ldexpf(v[i], (int)draw(&seed, 20));
}

/* ((r0 + r1) + r2) + ... of what every rank brings, computed here alone. */
static void serial_sum(float *sum, size_t n, uint32_t seed)
{
    float *other = malloc((n + 1) * sizeof *other);
    contribution(sum, n, seed, 0);
    for (int r = 1; r < world_size; r++) {
        contribution(other, n, seed, r);
        for (size_t i = 0; i < n; i++) {
            volatile const float rounded = sum[i] + other[i];
            sum[i] = rounded;
        }
    }
    free(other);
}

enum sum_mode { OUT_OF_PLACE, IN_PLACE, STAGED, SUM_MODES };

static void check_sum(size_t n, enum sum_mode mode, uint32_t seed)
{
    const size_t bytes = n * sizeof(float);
    float *want = guarded(bytes), *out = guarded(bytes), *in = guarded(bytes), *from = in;
    char what[64];
    if (mode == STAGED && bytes > tpcl_comm_chunk(comm)) mode = OUT_OF_PLACE;
    if (mode == IN_PLACE) from = out;
    if (mode == STAGED) from = tpcl_comm_stage(comm);
    contribution(from, n, seed, world_rank);
    serial_sum(want, n, seed);
    assert_ok(tpcl_comm_allreduce_sum(comm, TPCL_OK, from, out, n));
    snprintf(what, sizeof what, "sum of %zu, mode %d", n, (int)mode);
    assert_same_bytes(out, want, bytes, what);
    check_guard(out, bytes);
    if (mode == OUT_OF_PLACE) { /* the input is not touched */
        contribution(want, n, seed, world_rank);
        assert_same_bytes(in, want, bytes, "input of a sum");
    }
    free(want), free(out), free(in);
}

static void sums(void **state)
{
    static const size_t counts[] = {0,    1,    2,     3,     5,      7,     15,   16,
                                    17,   63,   64,    65,    576,    999,   1000, 1001,
                                    1023, 1024, 1025,  2047,  2049,   2500,  4095, 8191,
                                    8192, 8193, 12289, 40001, 131072, 131073};
    const size_t chunk = tpcl_comm_chunk(comm) / sizeof(float);
    (void)state;
    for (size_t i = 0; i < COUNT(counts); i++)
        for (int mode = 0; mode < SUM_MODES; mode++)
            check_sum(counts[i], (enum sum_mode)mode, (uint32_t)(i * 31 + 1));
    for (size_t k = 1; k <= 2; k++) {
        check_sum(k * chunk - 1, STAGED, 7);
        check_sum(k * chunk, STAGED, 8);
        check_sum(k * chunk + 1, IN_PLACE, 9);
    }
}

/* The order of ranks must matter in these tests, or they could not tell one from another. */
static void order_matters(void **state)
{
    enum { N = 4096 };
    static float forth[N], back[N], other[N];
    size_t differ = 0;
    (void)state;
    if (world_size < 3) return;
    serial_sum(forth, N, 5);
    contribution(back, N, 5, world_size - 1);
    for (int r = world_size - 2; r >= 0; r--) {
        contribution(other, N, 5, r);
        for (size_t i = 0; i < N; i++) back[i] += other[i];
    }
    for (size_t i = 0; i < N; i++) differ += forth[i] != back[i];
    assert_true(differ > N / 10);
}

/* No +0 start value, no dropped infinity, cancellation in rank order: (1e8 + 1) - 1e8 = 0. */
static void special_sums(void **state)
{
    float in[4] = {-0.0f, world_rank == 0 ? INFINITY : -1.0f, world_rank == 0 ? NAN : 1.0f, 0};
    float out[4];
    (void)state;
    in[3] = world_rank == 0 ? 1e8f : world_rank == 1 ? 1.0f : world_rank == 2 ? -1e8f : 0.5f;
    assert_ok(tpcl_comm_allreduce_sum(comm, TPCL_OK, in, out, 4));
    assert_true(out[0] == 0.0f && signbit(out[0]));
    assert_true(isinf(out[1]) && out[1] > 0);
    assert_true(isnan(out[2]));
    assert_true(out[3] == (world_size < 3 ? 1e8f : world_size == 3 ? 0.0f : 0.5f));
    checks++;
}

static int64_t integer(uint32_t seed, int rank, size_t i)
{
    uint32_t s = seed + (uint32_t)rank * 977u + (uint32_t)i * 7919u;
    const uint32_t high = draw(&s, UINT32_MAX), low = draw(&s, UINT32_MAX);
    if (i % 11 == 3) return rank == world_size - 1 ? INT64_MIN : INT64_MAX;
    return (int64_t)((uint64_t)high << 32 | low);
}

static void check_extremes(size_t n, uint32_t seed)
{
    const size_t bytes = n * sizeof(int64_t);
    for (int greatest = 0; greatest < 2; greatest++) {
        int64_t *value = guarded(bytes), *want = guarded(bytes);
        for (size_t i = 0; i < n; i++) {
            value[i] = integer(seed, world_rank, i);
            want[i] = integer(seed, 0, i);
            for (int r = 1; r < world_size; r++) {
                const int64_t v = integer(seed, r, i);
                if (greatest ? v > want[i] : v < want[i]) want[i] = v;
            }
        }
        if (greatest)
            assert_ok(tpcl_comm_allreduce_max(comm, TPCL_OK, value, n));
        else
            assert_ok(tpcl_comm_allreduce_min(comm, TPCL_OK, value, n));
        assert_same_bytes(value, want, bytes, greatest ? "maximum" : "minimum");
        check_guard(value, bytes);
        free(value), free(want);
    }
}

static void extremes(void **state)
{
    const size_t chunk = tpcl_comm_chunk(comm) / sizeof(int64_t);
    const size_t counts[] = {0, 1, 2, 3, 5, 7, 64, chunk - 1, chunk, chunk + 1, 2 * chunk + 3};
    (void)state;
    for (size_t i = 0; i < COUNT(counts); i++) check_extremes(counts[i], (uint32_t)i + 1);
}

static void pattern(unsigned char *p, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++) p[i] = (unsigned char)draw(&seed, 256);
}

static void check_broadcast(size_t n, int root, bool staged, uint32_t seed)
{
    unsigned char *data = guarded(n), *want = guarded(n), *at = data;
    pattern(want, n, seed);
    memset(data, 0, n);
    if (staged && n <= tpcl_comm_chunk(comm) && world_rank == root) at = tpcl_comm_stage(comm);
    if (world_rank == root) pattern(at, n, seed);
    assert_ok(tpcl_comm_broadcast(comm, TPCL_OK, at, n, root));
    assert_same_bytes(at, want, n, "broadcast");
    check_guard(data, n);
    free(data), free(want);
}

static void broadcasts(void **state)
{
    const size_t chunk = tpcl_comm_chunk(comm);
    const size_t sizes[] = {0,    1,         3,     8,         8191,         8192,
                            8193, chunk - 1, chunk, chunk + 1, 3 * chunk + 5};
    (void)state;
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (int root = 0; root < world_size; root++)
            check_broadcast(sizes[i], root, i % 2, (uint32_t)(i + 1));
}

enum gather_mode { GATHER_COPY, GATHER_IN_PLACE, GATHER_STAGED, GATHER_MODES };

static void check_gather(const size_t *bytes, int root, enum gather_mode mode, uint32_t seed)
{
    size_t total = 0, mine = 0;
    for (int r = 0; r < world_size; r++) {
        if (r == world_rank) mine = total;
        total += bytes[r];
    }
    const bool reads = root < 0 || root == world_rank;
    unsigned char *want = guarded(total), *out = guarded(total), *in = guarded(bytes[world_rank]);
    unsigned char *from = in;
    memset(out, 0, total);
    if (mode == GATHER_IN_PLACE && reads) from = out + mine;
    if (mode == GATHER_STAGED && bytes[world_rank] <= tpcl_comm_chunk(comm))
        from = tpcl_comm_stage(comm);
    for (size_t r = 0, at = 0; r < (size_t)world_size; at += bytes[r++])
        pattern(want + at, bytes[r], seed + (uint32_t)r);
    pattern(from, bytes[world_rank], seed + (uint32_t)world_rank);
    assert_ok(tpcl_comm_gather(comm, TPCL_OK, from, bytes, reads ? out : NULL, root));
    if (reads) assert_same_bytes(out, want, total, "gather");
    check_guard(out, total);
    free(want), free(out), free(in);
}

static void gathers(void **state)
{
    const size_t chunk = tpcl_comm_chunk(comm);
    const size_t sizes[][MOST_RANKS] = {
        {0},                                  /* nothing from anybody */
        {4, 4, 4, 4},                         /* all alike */
        {1, 0, 3, 0},                         /* empty shards */
        {0, 0, 0, 5},                         /* only the last */
        {8192, 8193, 0, 8191},                /* with and without the packet */
        {chunk, chunk + 1, chunk - 1, 1},     /* one more step for one rank */
        {2 * chunk + 7, 0, chunk, 3 * chunk}, /* several */
        {75968, 75968, 0, 1},                 /* a head's logits */
    };
    (void)state;
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (int root = -1; root < world_size; root++)
            for (int mode = 0; mode < GATHER_MODES; mode++)
                check_gather(sizes[i], root, (enum gather_mode)mode, (uint32_t)(i * 17 + 3));
}

static void random_operation(uint32_t *seed)
{
    const uint32_t n = draw(seed, draw(seed, 8) == 0 ? 20000 : 3000);
    const uint32_t mode = draw(seed, 3), operation = draw(seed, 6);
    const int root = (int)draw(seed, (uint32_t)world_size);
    size_t bytes[MOST_RANKS] = {0};
    if (operation <= 1) {
        check_sum(n, (enum sum_mode)mode, *seed);
    } else if (operation == 2) {
        check_extremes(n % 700, *seed);
    } else if (operation == 3) {
        check_broadcast(n, root, mode == 0, *seed);
    } else if (operation == 4) {
        for (int r = 0; r < world_size; r++) bytes[r] = draw(seed, n + 1);
        const int to = draw(seed, 3) ? root : -1;
        check_gather(bytes, to, (enum gather_mode)mode, *seed);
    } else {
        assert_ok(tpcl_comm_agree(comm, TPCL_OK, "step"));
    }
}

/* An order and sizes that all ranks draw alike, while each rank dawdles at moments of its own: what
 * a seat held before must never show through. */
static void random_sequence(void **state)
{
    const struct set_up *s = *state;
    uint32_t seed = 2024, own = 99u + (uint32_t)world_rank;
    for (int i = 0; i < s->random; i++) {
        if (draw(&own, 100) == 0) usleep(draw(&own, 300));
        random_operation(&seed);
    }
}

static void queries(void **state)
{
    const struct set_up *s = *state;
    const size_t asked = s->options.chunk_bytes ? s->options.chunk_bytes : 524288;
    int rank = -7;
    tpcl_status code = TPCL_ERR_IO;
    assert_int_equal(tpcl_comm_rank(comm), world_rank);
    assert_int_equal(tpcl_comm_size(comm), world_size);
    assert_int_equal(tpcl_comm_local_rank(comm), world_rank); /* one host */
    assert_int_equal(tpcl_comm_local_size(comm), world_size);
    assert_in_range(tpcl_comm_chunk(comm), asked - 63, asked);
    assert_int_equal((uintptr_t)tpcl_comm_stage(comm) % 64, 0);
    assert_ptr_equal(tpcl_comm_stage(comm), tpcl_comm_stage(comm));
    assert_false(tpcl_comm_failed(comm, &rank, &code));
    assert_int_equal(rank, -7);
    assert_int_equal(code, TPCL_ERR_IO);
    checks++;
}

/* Groups of their own do not disturb each other, whatever the order of their calls. */
static void two_groups_and_oneself(void **state)
{
    const struct set_up *s = *state;
    tpcl_comm *other = open_comm(&s->options), *self = NULL, *main_comm = comm;
    assert_ok(tpcl_comm_create(MPI_COMM_SELF, &s->options, &self));
    assert_int_equal(tpcl_comm_size(self), 1);
    for (int i = 0; i < 20; i++) {
        float alone[3] = {1, 2, (float)world_rank}, out[3];
        check_sum(100 + (size_t)i, OUT_OF_PLACE, 4);
        comm = other;
        check_sum(2000 + (size_t)i, STAGED, 5);
        comm = main_comm;
        assert_ok(tpcl_comm_allreduce_sum(self, TPCL_OK, alone, out, 3));
        assert_same_bytes(out, alone, sizeof out, "sum alone");
    }
    tpcl_comm_destroy(&other);
    tpcl_comm_destroy(&self);
    assert_null(other);
    tpcl_comm_destroy(&other);
    tpcl_comm_destroy(NULL);
    check_sum(50, IN_PLACE, 6);
}

static int run(void)
{
    int failures = 0;
    for (size_t i = 0; i < COUNT(set_ups); i++) {
        void *s = (void *)&set_ups[i];
        const struct CMUnitTest tests[] = {
            cmocka_unit_test_prestate(queries, s),
            cmocka_unit_test_prestate(order_matters, s),
            cmocka_unit_test_prestate(sums, s),
            cmocka_unit_test_prestate(special_sums, s),
            cmocka_unit_test_prestate(extremes, s),
            cmocka_unit_test_prestate(broadcasts, s),
            cmocka_unit_test_prestate(gathers, s),
            cmocka_unit_test_prestate(two_groups_and_oneself, s),
            cmocka_unit_test_prestate(random_sequence, s),
        };
        void *group_state = s;
        if (open_set_up(&group_state) != 0) return failures + 1;
        failures += cmocka_run_group_tests_name(set_ups[i].name, tests, NULL, NULL);
        if (close_set_up(&group_state) != 0) failures++;
    }
    return failures;
}

int main(void)
{
    return run_on_all_ranks(run);
}
