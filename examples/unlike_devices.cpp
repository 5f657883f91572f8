// Two unlike devices share a layer 3 to 1, a thread each in one program, in C++17: objects that
// free themselves, and exceptions.
//
//     ./unlike_devices [DEVICE,DEVICE]     as `tpcl devices` names them: gpu,cpu
//
// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <thread>
#include <tpcl/tpcl.h>
#include <vector>

// Every tpcl object has a destroy function that takes a pointer to its pointer.
template <class T, void (*Destroy)(T **)> struct destroyer {
    void operator()(T *object) const
    {
        Destroy(&object);
    }
};
template <class T, void (*Destroy)(T **)> using owned = std::unique_ptr<T, destroyer<T, Destroy>>;
using team_ptr = owned<tpcl_team, tpcl_team_destroy>;
using group_ptr = owned<tpcl_group, tpcl_group_destroy>;
using linear_ptr = owned<tpcl_linear, tpcl_linear_destroy>;
using tensor_ptr = owned<tpcl_tensor, tpcl_tensor_destroy>;

struct failure : std::runtime_error {
    explicit failure(tpcl_status s) : std::runtime_error(tpcl_last_error()), status(s)
    {
    }
    tpcl_status status;
};

static void check(tpcl_status status)
{
    if (status != TPCL_OK) throw failure(status);
}

// make<tensor_ptr>(tpcl_tensor_create, arguments...): the object that a create function gives.
template <class Owner, class Create, class... Args> Owner make(Create create, Args... args)
{
    typename Owner::pointer object = nullptr;
    check(create(args..., &object));
    return Owner(object);
}

static void run(tpcl_team *team, int rank, const char *devices)
{
    constexpr int in = 8, out = 4, tokens = 1;
    const double shares[2] = {3, 1};
    tpcl_group_options options{};
    options.device = devices;
    options.weights = shares;
    const auto group = make<group_ptr>(tpcl_group_create_in_team, team, rank, &options);

    // y = x W^T with W[o][i] = o + 1: columns of W follow the shares of the devices.
    std::vector<float> w(out * in), x(in, 1.0f), y(out);
    for (int i = 0; i < out * in; i++) w[i] = float(i / in + 1);
    const tpcl_host_tensor weight{"W", TPCL_F32, 2, {out, in}, w.data(), nullptr, nullptr};
    std::vector<tpcl_range> columns(tpcl_group_size(group.get()));
    check(tpcl_group_shard(group.get(), in, 1, 0, columns.data()));
    const tpcl_range mine = columns[rank];
    tpcl_row_linear_options cut{};
    cut.columns = columns.data();
    const auto layer = make<linear_ptr>(tpcl_row_linear_create, group.get(), &weight,
                                        static_cast<const tpcl_host_tensor *>(nullptr), &cut);
    const int64_t x_shape[2] = {tokens, tpcl_range_size(mine)}, y_shape[2] = {tokens, out};
    tpcl_device *device = tpcl_group_device(group.get());
    const auto tx = make<tensor_ptr>(tpcl_tensor_create, device, TPCL_F32, 2, &x_shape[0]);
    const auto ty = make<tensor_ptr>(tpcl_tensor_create, device, TPCL_F32, 2, &y_shape[0]);
    check(tpcl_tensor_write(tx.get(), &x[mine.begin], tpcl_range_size(mine)));
    check(tpcl_linear_forward(layer.get(), tx.get(), ty.get(), tokens));
    check(tpcl_tensor_read(ty.get(), y.data(), y.size()));
    if (rank != 0) return;
    for (std::size_t r = 0; r < columns.size(); r++)
        std::printf("rank %zu holds columns %d..%d\n", r, int(columns[r].begin),
                    int(columns[r].end));
    std::printf("y = [%g, %g, %g, %g]\n", y[0], y[1], y[2], y[3]);
}

int main(int argc, char **argv)
{
    std::atomic<int> failed{0};
    const auto team = make<team_ptr>(tpcl_team_create, 2);
    const auto rank = [&](int r) {
        try {
            run(team.get(), r, argc > 1 ? argv[1] : nullptr);
        } catch (const failure &e) { // the others have TPCL_ERR_PEER and need not say it again
            if (e.status != TPCL_ERR_PEER) std::fprintf(stderr, "unlike_devices: %s\n", e.what());
            failed = 1;
        }
    };
    std::thread other(rank, 1);
    rank(0);
    other.join();
    return failed;
}
