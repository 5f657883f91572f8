/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/dtype.h"
#include "ops/weight.h"

enum { P = TPI_PANEL };

/* Column by column: sixteen rows are read as sixteen streams, the panel is written as one. */
static void pack_2_bytes(const uint8_t *const rows[P], int k, uint8_t *panel)
{
    for (int c = 0; c < k; c++, panel += 2 * P)
        for (int i = 0; i < P; i++) memcpy(panel + 2 * i, rows[i] + 2 * (size_t)c, 2);
}

static void pack_4_bytes(const uint8_t *const rows[P], int k, uint8_t *panel)
{
    for (int c = 0; c < k; c++, panel += 4 * P)
        for (int i = 0; i < P; i++) memcpy(panel + 4 * i, rows[i] + 4 * (size_t)c, 4);
}

static void pack_q8(const uint8_t *const rows[P], int k, uint8_t *panel)
{
    for (int b = 0; b < k / 32; b++, panel += 34 * P) {
        for (int i = 0; i < P; i++) {
            const uint8_t *block = rows[i] + (size_t)b * 34;
            for (int c = 0; c < 32; c++) panel[c * P + i] = block[2 + c];
            memcpy(panel + 32 * P + 2 * i, block, 2);
        }
    }
}

/* Files put elements j and j + 16 into one byte; panels 2j and 2j + 1, which are used together. */
static void pack_q4(const uint8_t *const rows[P], int k, int block_bytes, uint8_t *panel)
{
    const int head = block_bytes - 16; /* d, or d and m */
    for (int b = 0; b < k / 32; b++, panel += block_bytes * P) {
        for (int i = 0; i < P; i++) {
            const uint8_t *block = rows[i] + (size_t)b * (size_t)block_bytes;
            const uint8_t *q = block + head;
            for (int j = 0; j < 8; j++) {
                panel[j * P + i] = (uint8_t)((q[2 * j] & 15) | (q[2 * j + 1] & 15) << 4);
                panel[(j + 8) * P + i] = (uint8_t)(q[2 * j] >> 4 | (q[2 * j + 1] >> 4) << 4);
            }
            memcpy(panel + 16 * P + 2 * i, block, 2);
            if (head == 4) memcpy(panel + 18 * P + 2 * i, block + 2, 2);
        }
    }
}

void tpi_pack_panel(tpcl_dtype dtype, const uint8_t *const rows[TPI_PANEL], int k, uint8_t *panel)
{
    switch (dtype) {
    case TPCL_Q8_0:
        pack_q8(rows, k, panel);
        break;
    case TPCL_Q4_0:
    case TPCL_Q4_1:
        pack_q4(rows, k, tpcl_dtype_block_bytes(dtype), panel);
        break;
    case TPCL_F16:
    case TPCL_BF16:
        pack_2_bytes(rows, k, panel);
        break;
    default:
        pack_4_bytes(rows, k, panel);
        break;
    }
}
