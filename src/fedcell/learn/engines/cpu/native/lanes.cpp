// Convolutions, max-pools and ReLUs of blocks of samples, called by lanes.py.
#include "lanes.h"

extern "C" {

long samples_of_a_block() { return LANES; }

// numbers: how samples are turned around
void block_in(Numbers n, Pointers p) { lanes_in(*(const Turn *)n, p[0], p[1]); }
void block_out(Numbers n, Pointers p) { lanes_out(*(const Turn *)n, p[0], p[1]); }

// numbers: those of a layer
void block_layer(Numbers n, Pointers p) {  // x, weight, bias or null, y, and with a max-pool places and room, or null
    lane_forward(*(const Layer *)n, p[0], p[1], p[2], p[3], p[4], p[5]);
}

void block_sent(Numbers n, Pointers p) {  // gradient by y, y, places or null, gradient before pool and ReLU, by bias or null
    lane_sent(*(const Layer *)n, p[0], p[1], p[2], p[3], p[4]);
}

void block_by_input(Numbers n, Pointers p) { lane_by_input(*(const Layer *)n, p[0], p[1], p[2]); }   // sent, weight, found
void block_by_weight(Numbers n, Pointers p) { lane_by_weight(*(const Layer *)n, p[0], p[1], p[2]); }  // x, sent, added to
}
