// Layers of GRU cells, and of plain recurrent cells with tanh or ReLU, over all places of a sequence, and their gradients.
//
// Gates of a GRU lie as PyTorch has them: what of the state counts (r), what of it stays (z), what is new (m), each `width`
// numbers: m = tanh(x's part + r (state's part)), and the state moves to (1 - z) m + z h.
#pragma once
#include "lstm.h"

enum { GRU, TANH, RELU };

static long gates_of(long kind) { return kind == GRU ? 3 : 1; }

static void gru_places(const Cells &s, const float *h, float *gates, const float *state, float *y) {
    const long H = s.width;
    for (long i = 0; i < s.n; i++, gates += 3 * H, state += 3 * H, h += H, y += H)
        in_parts(H, [&](Part k) {
            wide counts = sigmoid(k.of(gates) + k.of(state)), stays = sigmoid(k.of(gates + H) + k.of(state + H));
            wide fresh = hyperbolic(k.of(gates + 2 * H) + counts * k.of(state + 2 * H));
            k.put(gates, counts), k.put(gates + H, stays), k.put(gates + 2 * H, fresh);
            k.put(y, fresh + stays * (k.of(h) - fresh));
        });
}

// by_h: what is sent to the state, then the part of it that stays.
static void gru_places_back(const Cells &s, const float *before, const float *gates, const float *state, float *by_gates,
                            float *by_state, float *by_h) {
    const long H = s.width;
    for (long i = 0; i < s.n; i++, gates += 3 * H, state += 3 * H, by_gates += 3 * H, by_state += 3 * H, before += H, by_h += H)
        in_parts(H, [&](Part k) {
            wide counts = k.of(gates), stays = k.of(gates + H), fresh = k.of(gates + 2 * H), sent = k.of(by_h);
            wide by_fresh = sent * (1.0f - stays) * (1.0f - fresh * fresh);
            wide by_stays = sent * (k.of(before) - fresh) * stays * (1.0f - stays);
            wide by_counts = by_fresh * k.of(state + 2 * H) * counts * (1.0f - counts);
            k.put(by_gates, by_counts), k.put(by_gates + H, by_stays), k.put(by_gates + 2 * H, by_fresh);
            k.put(by_state, by_counts), k.put(by_state + H, by_stays), k.put(by_state + 2 * H, by_fresh * counts);
            k.put(by_h, sent * stays);
        });
}

// `state` keeps the state's part of all gates, with its biases. room: strips of the recurrent weights, the room of a product.
static void recurrence_forward(const Cells &s, long kind, const float *x, const float *w, const float *u, const float *b,
                               const float *b_too, const float *h0, float *y, float *gates, float *state, float *room) {
    const long across = gates_of(kind) * s.width, H = s.width, each = s.n * H;
    float *strips = room;
    product({x, s.n_in, 1}, {w, 1, s.n_in}, s.places * s.n, s.n_in, across, gates, across, false, b, 1,
            strips + (across + STRIP) * H);
    in_strips({u, 1, H}, H, across, strips);
    const float *h = h0;
    for (long turn = 0; turn < s.places; turn++) {
        const long t = s.at(turn);
        float *now = state + t * s.n * across, *gate = gates + t * s.n * across;
        for (long i = 0; i < s.n; i++)
            if (b_too) std::memcpy(now + i * across, b_too, 4 * across);
            else std::memset(now + i * across, 0, 4 * across);
        by_strips(h, strips, s.n, H, across, now, true);
        if (kind == GRU) gru_places(s, h, gate, now, y + t * each);
        else
            in_parts(each, [&](Part k) {
                wide sum = k.of(gate) + k.of(now);
                k.put(y + t * each, kind == TANH ? hyperbolic(sum) : sum > wide{} ? sum : wide{});
            });
        h = y + t * each;
    }
}

// by_h: at last by the first state.
static void recurrence_places_back(const Cells &s, long kind, const float *sent, const float *u, const float *h0,
                                   const float *y, const float *gates, const float *state, float *by_gates, float *by_state,
                                   float *by_h, float *strips) {
    const long across = gates_of(kind) * s.width, H = s.width, each = s.n * H;
    std::memset(by_h, 0, 4 * each);
    in_strips({u, H, 1}, across, H, strips);
    for (long turn = s.places - 1; turn >= 0; turn--) {
        const long t = s.at(turn), at = t * s.n * across;
        for (long i = 0; i < s.n; i++) {
            const float *back = sent + t * s.sent_place + i * s.sent_sample;
            for (long k = 0; k < H; k++) by_h[i * H + k] += back[k];
        }
        if (kind == GRU) {
            const float *before = turn ? y + s.at(turn - 1) * each : h0;
            gru_places_back(s, before, gates + at, state + at, by_gates + at, by_state + at, by_h);
        } else
            in_parts(each, [&](Part k) {
                wide made = k.of(y + t * each), back = k.of(by_h);
                wide slope = kind == TANH ? back * (1.0f - made * made) : made > wide{} ? back : wide{};
                k.put(by_gates + at, slope), k.put(by_state + at, slope);
            });
        by_strips(by_state + at, strips, s.n, across, H, by_h, kind == GRU);
    }
}
