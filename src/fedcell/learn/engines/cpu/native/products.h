// Products of matrices that lie in any order.
#pragma once
#include "few.h"
#include "tiles.h"

const int FULL = (ROWS + WIDEST - 1) / WIDEST * WIDEST;  // numbers in vectors for all rows of a tile
const long CROWDED = 256;              // numbers between rows that share a place in the cache with many others
const long DEPTH = 512, ROOM = 65536;  // terms of a sum, and numbers of a matrix, that are copied at a time

// What was measured to be quicker, with benchmarks/products.py and an AMD processor with AVX-512:
const long LOW = ROOM / DEPTH;  // rows up to which to turn them, rather than columns that lie one after another
const long NARROW = 12;         // such columns up to which to turn neither
const long LONG = 512;          // columns from which on to have few terms by vectors, rather than by tiles
const long SHALLOW = 128;       // terms up to which to multiply the left matrix by the rate, rather than the sums

// Columns of up to ROWS numbers that lie one after another, side by side and times the rate.
static Matrix close_by(Matrix left, long rows, long depth, float rate, float *to) {
    for (long k = 0; k < depth; k++)
        for (long r = 0; r < rows; r += WIDEST)
            store<WIDEST>(to + k * FULL + r, rate * load_part(left.from(r, k).at, rows - r < WIDEST ? rows - r : WIDEST));
    return {to, 1, FULL};
}

// into = keep * into + begin + what `high` rows and `broad` columns hold, turned
static void turned_out(const float *from, long high, long broad, float *into, long apart, bool keep, const float *begin) {
    float square[WIDEST * WIDEST];
    for (long r = 0; r < high; r += WIDEST) {
        const long some = high - r < WIDEST ? high - r : WIDEST;
        wide start = begin ? load_part(begin + r, some) : wide{};
        for (long c = 0; c < broad; c += WIDEST) {
            turned(from + r * STRIP + c, STRIP, square, WIDEST);
            for (long k = 0; k < WIDEST && c + k < broad; k++) {
                float *to = into + (c + k) * apart + r;
                wide found = start + load<WIDEST>(square + k * WIDEST);
                if (keep) found += load_part(to, some);
                store_part(to, found, some);
            }
        }
    }
}

// A product whose left matrix is turned and copied into strips, which every group of columns of the right matrix meets.
template <class Between>
static void product_turned(Matrix left, Matrix right, long rows, long depth, long columns, float *into, long apart, bool keep,
                           const float *begin, float *room, Between between) {
    float found[FULL * STRIP] = {};
    in_groups(depth, DEPTH, 1, [&](long k, long deep) {
        auto wide_of = [&](long r) { return rows - r < STRIP ? rows - r : STRIP; };
        for (long r = 0; r < rows; r += STRIP) packed(left.from(r, k).turned(), deep, wide_of(r), room + r * deep);
        over_tiles(columns, [&](long c, long high) {
            between(rows * deep * high);
            for (long r = 0; r < rows; r += STRIP) {
                any_tile(right.from(k, c).turned(), high, room + r * deep, STRIP, deep, found, STRIP, wide_of(r), false, 0, 1);
                turned_out(found, high, wide_of(r), into + r * apart + c, apart, keep || k, begin && !k ? begin + c : 0);
            }
        });
    });
}

// Numbers of vectors that are left over if each row has one.
static long idle(long rows) { return (rows + WIDEST - 1) / WIDEST * WIDEST - rows; }

struct Nothing {
    void operator()(long) const {}
};

// into = keep * into + begin + rate * left right; the rows of `into` are `apart`; room holds ROOM + DEPTH x 16 numbers.
//
// Each group of rows meets all strips of a block of the right matrix, which stays in the cache; strips whose rows are not
// whole vectors are copied. If there are few rows or terms, nothing or less is copied. `between` is called all along with
// the number of multiplications to come.
template <class Between = Nothing>
static void product(Matrix left, Matrix right, long rows, long depth, long columns, float *into, long apart, bool keep,
                    const float *begin, float rate, float *room, Between between = {}) {
    if (right.down == 1 && left.right == 1 && (rows <= FEW || columns <= NARROW || (rows <= 2 * FEW && idle(rows) > rows / 5)))
        return product_of_few_rows(left, right, rows, depth, columns, into, apart, keep, begin, rate, between);
    if (right.down == 1 && rows <= LOW && rate == 1)
        return product_turned(left, right, rows, depth, columns, into, apart, keep, begin, room, between);
    if (right.right == 1 && depth <= FEW && columns >= LONG && !begin)
        return product_of_few_terms(left, right, rows, depth, columns, into, apart, keep, rate, between);
    in_groups(depth, DEPTH, 1, [&](long k, long deep) {
        const long broad = ROOM / deep / STRIP * STRIP;
        for (long first = 0; first < columns; first += broad) {
            const long last = first + broad < columns ? first + broad : columns;
            auto wide_of = [&](long c) { return last - c < STRIP ? last - c : STRIP; };
            auto stays = [&](long c) { return right.right == 1 && wide_of(c) == STRIP; };
            for (long c = first; c < last; c += STRIP)
                if (!stays(c)) packed(right.from(k, c), deep, wide_of(c), room + (c - first) * deep);
            over_tiles(rows, [&](long r, long high) {
                Matrix from = left.from(r, k);
                bool crowded = left.right % CROWDED == 0 && last - first > STRIP, scaled = rate != 1 && deep <= SHALLOW;
                bool copied = left.down == 1 && (crowded || scaled);
                if (copied) from = close_by(from, high, deep, rate, room + ROOM);
                between(high * deep * (last - first));
                for (long c = first; c < last; c += STRIP) {
                    const float *strip = stays(c) ? right.from(k, c).at : room + (c - first) * deep;
                    any_tile(from, high, strip, stays(c) ? right.down : STRIP, deep, into + r * apart + c, apart, wide_of(c),
                             keep || k, begin && !k ? begin + c : 0, copied ? 1 : rate);
                }
            });
        }
    });
}
