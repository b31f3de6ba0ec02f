// SPDX-License-Identifier: BSD-2-Clause
// funcsnoop stream: calls as they happen.
#include "internal.h"

static int run(struct globals *g, int argc, char **argv)
{
	_cleanup_options_ struct options o;

	cmd_parse(g, &cmd_stream, argc, argv, &o);
	o.stream.names = o.words;
	o.stream.duration_ns = o.duration_ns;
	o.stream.output = o.output;
	return stream_options_finish(&o.stream) ? stream_run(&o.stream) : EXIT_USAGE;
}

const struct command cmd_stream = { "stream", "[GROUP...]", "calls as they happen", run, ON_STREAM,
	"[GROUP...]",
	"Show calls of groups as they happen; without GROUP, of all.\v"
	"Filters work in the kernel. Calls without room are counted, and told.\n"
	"Examples:\n"
	"  funcsnoop stream cuda --only slow\n"
	"  funcsnoop stream cuda --only failed --json | jq .ret_name\n"
	"  funcsnoop stream nccl -p 1234 -f 'ncclAll*' -d 10\n"
	"  funcsnoop stream --format chrome -o trace.json   (open it in ui.perfetto.dev)" };
