/* SPDX-License-Identifier: BSD-2-Clause */
/* What the probes of a call take, by where it begins and how its end is seen. */
#ifndef FUNCSNOOP_GROUP_PRICE_H
#define FUNCSNOOP_GROUP_PRICE_H

#include <stdint.h>

/* The instruction that the entry probe stands on: the kernel emulates it, or steps it. */
enum price_site { PRICE_EMULATED, PRICE_STEPPED, PRICE_SITES };

enum price_end {
	PRICE_COUNT,  /* not looked for */
	PRICE_RETURN, /* return probe, by whatever kind of link */
	PRICE_RET,    /* a probed ret */
	PRICE_JUMP,   /* a probed jump */
	PRICE_ENDS
};

/* Of one kind of link, as it was measured. All in ns; at_ns is 0 when nothing is known. */
struct price {
	uint64_t at_ns; /* CLOCK_REALTIME of the measurement */
	/* Of the probes' own time what lies between the two readings of the clock. */
	uint32_t overhead_ns[PRICE_SITES][PRICE_ENDS];
	/* By how much a call takes longer, traps included. */
	uint32_t whole_ns[PRICE_SITES][PRICE_ENDS];
};

#endif
