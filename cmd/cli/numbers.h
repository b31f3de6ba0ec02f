/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers on the command line, and words of which an option knows few. */
#ifndef FUNCSNOOP_CLI_NUMBERS_H
#define FUNCSNOOP_CLI_NUMBERS_H

#include <argp.h>
#include <stdint.h>
#include <sys/types.h>

/* A whole number from @min to @max. Leaves by argp_error(), which names @option, otherwise. */
uint64_t number_parse(struct argp_state *state, const char *option, const char *arg,
	uint64_t min, uint64_t max);

/*
 * -d SEC, -i SEC: "2", "0.5", or a duration with its unit, in ns: between 1 ms and 11 days.
 * Leaves by argp_error(), which names @option, for anything else.
 */
uint64_t seconds_parse(struct argp_state *state, const char *option, const char *arg);

/*
 * Which of its values the option @key of @options is given: 0 for the first. They stand in
 * the option's own text: its argument is "auto|entry", or what it does ends in ": call (when it
 * is over), entry or all". Leaves by argp_error(), which names them, for any other.
 */
unsigned int choice_parse(struct argp_state *state, const struct argp_option *options,
	int key, const char *arg);

/* A user's name or number. Leaves by argp_error(), which names @option, for anything else. */
uid_t user_parse(struct argp_state *state, const char *option, const char *arg);

#endif
