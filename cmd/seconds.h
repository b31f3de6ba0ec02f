/* SPDX-License-Identifier: BSD-2-Clause */
/* -d SEC and -i SEC of stats and stream. */
#ifndef FUNCSNOOP_CMD_SECONDS_H
#define FUNCSNOOP_CMD_SECONDS_H

#include <argp.h>
#include <stdint.h>

/*
 * "2", "0.5", or a duration with its unit, in ns: between 1 ms and 11 days. Leaves by
 * argp_error(), which names @option, for anything else.
 */
uint64_t seconds_parse(struct argp_state *state, const char *option, const char *arg);

#endif
