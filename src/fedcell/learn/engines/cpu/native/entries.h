// Sums, products and copies entry by entry, of tensors that lie in any order.
#pragma once
#include "rows.h"

const int AXES = 6;

struct Entries {  // as Python gives it: sizes, and steps of what is found and of what is read; the last axis goes fastest
    long what, size[AXES], to[AXES], one[AXES], other[AXES];
};

namespace entry {
enum {
    SCALED, ADDED, MULTIPLIED,
    SIGMOID, TANH, HARDSWISH, LEAKY,                                            // of one tensor
    SIGMOID_BACK, TANH_BACK, HARDSWISH_BACK, LEAKY_BACK, RELU_BACK, CLAMP_BACK  // of what is sent back and of another
};
}  // namespace entry

// One row: whole vectors if all lie side by side, or one number meets all.
template <class Function>
static void entries_of_row(const Entries &e, float *to, const float *one, const float *other, Function f) {
    const long n = e.size[AXES - 1], s = e.to[AXES - 1], a = e.one[AXES - 1], b = e.other[AXES - 1];
    if (s == 1 && (a == 1 || a == 0) && (b == 1 || b == 0)) {
        auto of = [&](const float *from, long step, long k) { return step ? load<WIDEST>(from + k) : wide{} + *from; };
        auto some_of = [&](const float *from, long step, long k, long some) {
            return step ? load_some<WIDEST>(from + k, some) : wide{} + *from;
        };
        over(
            n, [&](long k) { store<WIDEST>(to + k, f(of(one, a, k), of(other, b, k))); },
            [&](long k, long some) {
                store_some<WIDEST>(to + k, f(some_of(one, a, k, some), some_of(other, b, k, some)), some);
            });
        return;
    }
    for (long k = 0; k < n; k++) to[k * s] = f(wide{} + one[k * a], wide{} + other[k * b])[0];
}

template <class Function>
static void over_entries(const Entries &e, float *to, const float *one, const float *other, Function f) {
    long at[AXES] = {};
    while (true) {
        entries_of_row(e, to, one, other, f);
        int axis = AXES - 2;
        for (; axis >= 0; axis--) {
            to += e.to[axis], one += e.one[axis], other += e.other[axis];
            if (++at[axis] < e.size[axis]) break;
            to -= e.to[axis] * e.size[axis], one -= e.one[axis] * e.size[axis], other -= e.other[axis] * e.size[axis];
            at[axis] = 0;
        }
        if (axis < 0) return;
    }
}

static void entries_found(const Entries &e, float rate, float *to, const float *one, const float *other) {
    switch (e.what) {
        case entry::SCALED: return over_entries(e, to, one, one, [=](wide a, wide) { return a * rate; });
        case entry::ADDED: return over_entries(e, to, one, other, [=](wide a, wide b) { return a + rate * b; });
        case entry::MULTIPLIED: return over_entries(e, to, one, other, [](wide a, wide b) { return a * b; });
        case entry::SIGMOID: return over_entries(e, to, one, one, [](wide a, wide) { return sigmoid(a); });
        case entry::TANH: return over_entries(e, to, one, one, [](wide a, wide) { return hyperbolic_near(a); });
        case entry::HARDSWISH: return over_entries(e, to, one, one, [=](wide a, wide) {
            const wide up = a + 3.0f, zero = {}, whole = zero + 6.0f;
            return a * (up > whole ? whole : up < zero ? zero : up) * (1 / 6.0f);
        });
        case entry::LEAKY: return over_entries(e, to, one, one, [=](wide a, wide) { return a > wide{} ? a : rate * a; });
        case entry::SIGMOID_BACK: return over_entries(e, to, one, other, [](wide a, wide b) { return a * b * (1.0f - b); });
        case entry::TANH_BACK: return over_entries(e, to, one, other, [](wide a, wide b) { return a * (1.0f - b * b); });
        case entry::HARDSWISH_BACK: return over_entries(e, to, one, other, [](wide a, wide b) {
            const wide three = wide{} + 3.0f;
            return b < -three ? wide{} : b <= three ? a * (b * (1 / 3.0f) + 0.5f) : a;
        });
        case entry::LEAKY_BACK: return over_entries(e, to, one, other, [=](wide a, wide b) { return b > wide{} ? a : rate * a; });
        case entry::RELU_BACK: return over_entries(e, to, one, other, [](wide a, wide b) { return b <= wide{} ? wide{} : a; });
        case entry::CLAMP_BACK: return over_entries(e, to, one, other, [=](wide a, wide b) {
            return (b <= wide{}) | (b >= wide{} + rate) ? wide{} : a;
        });
    }
}
