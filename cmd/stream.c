// SPDX-License-Identifier: BSD-2-Clause
// funcsnoop stream: calls as they happen.
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "cli/cmd.h"
#include "internal.h"

enum {
	KEY_SLOW = 0x100,
	KEY_FAILED,
	KEY_MIN,
	KEY_SAMPLE,
	KEY_EVENTS,
	KEY_FORMAT,
	KEY_ALERT,
	KEY_BUFFER,
};

static const struct argp_option options[] = {
	{ "slow", KEY_SLOW, NULL, 0, "Only slow calls", 1 },
	{ "failed", KEY_FAILED, NULL, 0, "Only calls that failed", 1 },
	{ "min", KEY_MIN, "DUR", 0, "Only calls that took so long or longer", 1 },
	{ "pid", 'p', "PID", 0, "Only this process; repeatable", 1 },
	{ "function", 'f', "FUNCTION", 0, "Only this function, or a glob; repeatable", 1 },
	{ "sample", KEY_SAMPLE, "N", 0, "Only one call of N", 1 },
	{ "number", 'n', "N", 0, "End after N calls", 2 },
	{ "duration", 'd', "SEC", 0, "End after so long", 2 },
	{ "events", KEY_EVENTS, "WHAT", 0, "Show: call (when it is over), entry, exit or all", 3 },
	{ "format", KEY_FORMAT, "FORMAT", 0, "Print as: text, json or chrome", 3 },
	{ "output", 'o', "FILE", 0, "Write to FILE", 3 },
	{ "alert", KEY_ALERT, NULL, 0, "Slow calls to syslog, too, as warnings", 3 },
	{ "buffer", KEY_BUFFER, "SIZE", 0, "Room for calls not yet read, as 64M (default 16M)", 4 },
	{ 0 }
};

static const char help[] =
	"Show calls of groups as they happen; without GROUP, of all.\v"
	"Filters work in the kernel. Calls without room are counted, and told.\n"
	"Examples:\n"
	"  funcsnoop stream cuda --slow\n"
	"  funcsnoop stream cuda --failed --json | jq .ret_name\n"
	"  funcsnoop stream nccl -p 1234 -f 'ncclAll*' -d 10\n"
	"  funcsnoop stream --format chrome -o trace.json   (open it in ui.perfetto.dev)";

/* --- options ---------------------------------------------------------------------------------- */

/* "64M", "512K", "4096". */
static uint64_t parse_size(struct argp_state *state, const char *arg)
{
	static const char units[] = "KMG";
	const char *unit;
	uint64_t n;
	char *end;

	errno = 0;
	n = strtoull(arg, &end, 10);
	unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
	if (unit && !end[1] && n < 1ULL << 32)
		n <<= 10 * (unit - units + 1);
	else if (*end)
		n = 0;
	if (!isdigit((unsigned char)arg[0]) || errno || n < STREAM_BUFFER_MIN ||
		n > STREAM_BUFFER_MAX)
		argp_error(state, "--buffer '%s' is not a size from 4K to 1G", arg);
	return n;
}

static void parse_events(struct argp_state *state, struct stream_options *o, const char *arg)
{
	enum { CALL, ENTRY, EXIT, ALL } which = choice_parse(state, options, KEY_EVENTS, arg);

	o->calls = which == CALL || which == ALL;
	o->entries = which == ENTRY || which == ALL;
	o->exits = which == EXIT || which == ALL;
}

static void add_pid(struct argp_state *state, struct stream_options *o, const char *arg)
{
	if (o->filter.pid_cnt == FSN_STREAM_PIDS)
		argp_error(state, "at most %d processes can be chosen", FSN_STREAM_PIDS);
	else
		o->pid[o->filter.pid_cnt++] = number_parse(state, "--pid", arg, 1, INT_MAX);
}

static void add_func(struct argp_state *state, struct stream_options *o, const char *arg)
{
	const char **more = array_grow(o->func, o->filter.func_cnt, sizeof(*more));

	if (!more) {
		argp_failure(state, EXIT_FAILED, 0, "out of memory");
		return;
	}
	o->func = more;
	more[o->filter.func_cnt++] = arg;
}

static error_t parse_filter(int key, char *arg, struct argp_state *state)
{
	struct stream_options *o = state->input;
	struct err err = {};

	switch (key) {
	case KEY_SLOW:
		o->filter.slow = true;
		return 0;
	case KEY_FAILED:
		o->filter.failed = true;
		return 0;
	case KEY_MIN:
		if (duration_parse(arg, &o->filter.min_ns, &err))
			argp_error(state, "--min: %s", err.msg);
		return 0;
	case 'p':
		add_pid(state, o, arg);
		return 0;
	case 'f':
		add_func(state, o, arg);
		return 0;
	case KEY_SAMPLE:
		o->filter.sample = number_parse(state, "--sample", arg, 1, UINT32_MAX);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct stream_options *o = state->input;

	switch (key) {
	case 'n':
		o->max_calls = number_parse(state, "--number", arg, 1, INT64_MAX);
		return 0;
	case 'd':
		o->duration_ns = seconds_parse(state, "--duration", arg);
		return 0;
	case KEY_EVENTS:
		parse_events(state, o, arg);
		return 0;
	case KEY_FORMAT:
		choice_parse(state, options, key, arg);
		o->format = stream_format_find(arg);
		return 0;
	case 'o':
		o->output = strcmp(arg, "-") ? arg : NULL;
		return 0;
	case KEY_ALERT:
		o->alert = true;
		return 0;
	case KEY_BUFFER:
		o->buffer_bytes = parse_size(state, arg);
		return 0;
	default:
		return parse_filter(key, arg, state);
	}
}

/* Options that make no sense together: why, or NULL. */
static const char *contradiction(const struct stream_options *o)
{
	const struct stream_filter *f = &o->filter;

	if (o->g->json && o->format && o->format != &stream_json)
		return "--json and another --format exclude each other";
	if (o->format && o->format->calls_only && (o->entries || o->exits))
		return "a trace is made of calls: no --events with --format chrome";
	if (o->entries && (f->slow || f->failed || f->min_ns))
		return "at an entry nothing is known of the call: no --slow, --failed or --min";
	if (o->entries && o->calls && f->sample)
		return "--sample would choose other entries than calls: not with --events all";
	if (o->alert && !o->calls)
		return "--alert is about calls: not with --events entry or exit";
	return NULL;
}

void stream_options_done(struct stream_options *o)
{
	free(o->func);
}

bool stream_options_parse(struct stream_options *o, int argc, char **argv)
{
	static const struct argp argp = { options, parse, .args_doc = "[GROUP...]",
		.doc = help };
	const char *wrong;

	o->calls = true;
	o->buffer_bytes = STREAM_BUFFER_DEFAULT;
	cmd_parse(o->g, &argp, argc, argv, o, &o->names);
	wrong = contradiction(o);
	if (wrong) {
		cmd_usage(o->g, "%s", wrong);
		return false;
	}
	if (!o->format)
		o->format = o->g->json ? &stream_json : &stream_text;
	/* Errors are told in JSON, too. */
	o->g->json = o->format == &stream_json;
	o->filter.ends = o->calls || o->exits;
	o->filter.entries = o->entries;
	o->filter.pids = o->pid;
	o->filter.funcs = o->func;
	return true;
}

static int run(struct globals *g, int argc, char **argv)
{
	__cleanup(stream_options_done) struct stream_options o = { .g = g };

	return stream_options_parse(&o, argc, argv) ? stream_run(&o) : EXIT_USAGE;
}

const struct command cmd_stream = { "stream", "[GROUP...]", "calls as they happen", run };
