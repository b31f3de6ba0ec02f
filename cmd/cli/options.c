// SPDX-License-Identifier: BSD-2-Clause
// The table of options: one row per option, in the order of the help.
#include <limits.h>
#include <string.h>

#include "base/util.h"
#include "cli/options.h"

#define PID_MAX (1 << 22)

#define AT(field) .at = offsetof(struct options, field)
#define IN(field) .at = offsetof(struct globals, field) /* of GROUP_COMMON */

#define RECORD (ON_ATTACH | ON_RUN)
#define SHOW   (ON_STATS | ON_RUN)
#define CALLS  (ON_STREAM | ON_RUN)

#define COMMON ON_EACH | ON_FIRST, GROUP_COMMON
#define TRACE  RECORD, GROUP_TRACE
#define FILTER RECORD, GROUP_FILTER
#define HOW    RECORD, GROUP_RECORD
#define KEEP   ON_ATTACH, GROUP_KEEP
#define VIEW   SHOW, GROUP_PRINT
#define STREAM CALLS, GROUP_STREAM
#define DEBUG  RECORD, GROUP_DEBUG

/* Formats of tables, then those of calls. */
static const char *run_formats(char buf[WORDS_LEN])
{
	size_t len = strlen(stats_format_words(buf));

	snprintf(buf + len, WORDS_LEN - len, "|text|chrome");
	return buf;
}

/* The help of the next row describes this option as well. */
#define WITH_NEXT ""

/* clang-format off */
const struct option_row option_table[] = {
	{ "lib", 'l', TRACE, "LIB", "Look up functions in LIB: path, soname or name",
		read_texts, AT(attach.libs), .completes = "libraries" },
	{ "regex", 'r', TRACE, NULL, "Treat FUNCTIONs as POSIX extended regular expressions",
		read_flag, AT(attach.draft.regex) },
	{ "config", 0, TRACE, "FILE", WITH_NEXT,
		read_text, AT(attach.config), .completes = "files" },
	{ "name", 0, TRACE, "NAME", "Read the group from a JSON file; name it NAME",
		read_text, AT(attach.name) },
	{ "force", 0, TRACE, NULL, "Attach even if very many functions or processes match",
		read_flag, AT(attach.force) },

	{ "pid", 'p', FILTER, "PID", "Only process PID; also finds LIB in its mappings",
		read_numbers, AT(attach.pids), 1, PID_MAX, .completes = "processes" },
	{ "tid", 0, FILTER, "TID", WITH_NEXT,
		read_numbers, AT(attach.tids), 1, PID_MAX, .completes = "threads" },
	{ "cpu", 'c', FILTER, "N", "Only thread TID; only CPU N",
		read_numbers, AT(attach.cpus), 0, 1 << 20, .completes = "cpus" },
	{ "children", 0, ON_ATTACH, GROUP_FILTER, NULL, "With --pid: also the children of PID",
		read_flag, AT(attach.attach.children) },
	{ "children", 0, ON_RUN, GROUP_FILTER, NULL, WITH_NEXT,
		read_flag, AT(attach.attach.children) },
	{ "no-children", 0, ON_RUN, GROUP_FILTER, NULL, "Also children of PID; not those of COMMAND",
		read_flag, AT(no_children) },
	{ "comm", 0, FILTER, "NAME", WITH_NEXT,
		read_texts, AT(attach.comms) },
	{ "uid", 0, FILTER, "USER", "Only threads of that command name, of that user",
		read_users, AT(attach.uids), .completes = "users" },
	{ "cgroup", 0, FILTER, "PATH", "Only processes in cgroup PATH or below",
		read_texts, AT(attach.cgroups), .completes = "folders" },
	{ "if", 0, FILTER, "COND", "Only calls whose arguments match: 'size >= 1M'",
		read_if, AT(attach), .completes = "arguments" },

	{ "count", 0, HOW, NULL, "Count calls without timing them (lowest overhead)",
		read_flag, AT(attach.draft.rules.count_only) },
	{ "sample", 0, HOW, "N", "Time one call in N; count all",
		read_number, AT(attach.attach.sample), 1, 1U << 31 },
	{ "overhead", 0, HOW, "SHARE", "Limit the overhead to SHARE of the CPU time, or none",
		read_overhead, AT(attach), .values = "1%|5%|10%|none" },
	{ "budget", 0, HOW, "SHARE", NULL, read_overhead, AT(attach) },
	{ "slow", 0, HOW, "[FUNC=]DUR", "Remember calls that take DUR or longer, such as 5ms",
		read_slow, AT(attach.slow) },
	{ "split", 0, HOW, NULL, "Split time into on-CPU, runnable and blocked",
		read_flag, AT(attach.attach.split) },
	{ "stacks", 0, HOW, "HOW", "Group calls by stack: all, python, slow, or 1 in N",
		read_stacks, AT(attach), 1, UINT32_MAX, .values = "all|python|slow" },
	{ "key", 0, HOW, "KEY[,KEY]", "Group calls by argument, caller, thread, result, ...",
		read_key, AT(attach), .completes = "arguments",
		.values = "caller|cgroup|comm|communicator|kernel|result|thread" },
	{ "sum", 0, HOW, "ARG", "Sum argument ARG",
		read_key, AT(attach), .completes = "arguments" },
	{ "no-keys", 0, HOW, NULL, "Ignore the keys and sums of the preset",
		read_flag, AT(attach.no_keys) },
	{ "memory", 0, HOW, NULL, "Track allocations until they are freed",
		read_flag, AT(attach.memory) },
	{ "keys", 0, HOW, "N", WITH_NEXT,
		read_number, AT(attach.keys.rows), 1, KEYS_MAX },
	{ "blocks", 0, HOW, "N", "Keep at most N rows (16384), N allocations (262144)",
		read_number, AT(attach.attach.blocks), 1, BLOCKS_MAX },
	{ "rate", 0, HOW, "N", WITH_NEXT,
		read_number, AT(attach.attach.rate), 1, RATE_MAX },
	{ "duty", 0, HOW, "1/N", "Samples per second (99); record GPUs 1 second in N",
		read_duty, AT(attach), .values = "1/2|1/5|1/10|1/30|1/60" },
	{ "no-processes", 0, HOW, NULL, "Do not keep statistics per process",
		read_off, AT(attach.attach.processes) },
	{ "no-nesting", 0, HOW, NULL, WITH_NEXT,
		read_off, AT(attach.attach.nesting) },
	{ "raw", 0, HOW, NULL, "Do not track nested calls; do not subtract overhead",
		read_flag, AT(attach.attach.raw) },

	{ "dry-run", 'n', KEEP, NULL, "Print what would be probed and why; attach nothing",
		read_flag, AT(attach.dry_run) },
	{ "verbose", 'v', KEEP, NULL, "With --dry-run: also print the functions' types",
		read_flag, AT(attach.verbose) },
	{ "replace", 0, KEEP, NULL, "Replace a group of that name",
		read_flag, AT(attach.attach.replace) },
	{ "refresh", 0, KEEP, NULL, "Replace a group of that name if it differs",
		read_flag, AT(attach.refresh) },
	{ "for", 0, KEEP, "DUR", "Detach the group after DUR",
		read_duration, AT(attach.attach.for_ns), 1 },
	{ "mode", 0, KEEP, "MODE", "Let other users read the counters, such as 0644",
		read_mode, AT(attach), .values = "0600|0640|0644" },
	{ "owner", 0, KEEP, "USER:GROUP", "Set the owner and the group of the counters",
		read_owner, AT(attach), .completes = "owners" },
	{ "mode-all", 0, KEEP, NULL, "Also share arguments, slow calls, calls in flight",
		read_flag, AT(attach.attach.access.all) },

	{ "duration", 'd', SHOW | ON_STREAM, GROUP_PRINT, "SEC", "Stop after SEC seconds",
		read_seconds, AT(duration_ns) },
	{ "interval", 'i', VIEW, "SEC", "Print statistics every SEC seconds",
		read_seconds, AT(stats.interval_ns) },
	{ "watch", 0, VIEW, NULL, "Refresh the table in place, like top(1)",
		read_flag, AT(stats.watch) },
	{ "by", 0, VIEW, "WHAT", "One row per %s, or per KEY[,KEY]",
		read_by, AT(stats), .words = view_by_words, .completes = "keys" },
	{ "sort", 0, VIEW, "KEY", "Sort by %s",
		read_sort, AT(stats), .words = stats_sort_words },
	{ "top", 0, VIEW, "N", WITH_NEXT, read_from_one, AT(stats.choice.top) },
	{ "all", 'a', VIEW, NULL, "Print N rows; include functions never called",
		read_flag, AT(stats.choice.all) },
	{ "min", 0, ON_STATS, GROUP_PRINT, "SHARE", "With --by stack: leave out frames below SHARE",
		read_share, AT(stats.choice.min_share) },
	{ "hist", 0, VIEW, NULL, WITH_NEXT, read_view, AT(stats) },
	{ "errors", 0, VIEW, NULL, WITH_NEXT, read_view, AT(stats) },
	{ "tree", 0, VIEW, NULL, "Print histograms, failures by code, a call tree",
		read_view, AT(stats) },
	{ "slow", 0, ON_STATS, GROUP_PRINT, NULL, "Print the slow calls", read_view, AT(stats) },
	{ "show-slow", 0, ON_RUN, GROUP_PRINT, NULL,
		"Print the slow calls; with --stream, only those", read_flag, AT(show_slow) },
	{ "lines", 0, VIEW, NULL, WITH_NEXT,
		read_flag, AT(stats.choice.lines) },
	{ "timestamp", 'T', VIEW, NULL, "Source lines in stacks; times above tables",
		read_flag, AT(stats.timestamps) },
	{ "format", 0, ON_RUN, GROUP_PRINT, "FORMAT", "%s",
		read_text, AT(format), .words = run_formats },
	{ "format", 0, ON_STATS, GROUP_PRINT, "FORMAT", "%s",
		read_format, AT(stats), .words = stats_format_words },
	{ "format", 0, ON_STREAM, GROUP_PRINT, "FORMAT", "Print as %s",
		read_stream_format, AT(stream), .values = "text|json|chrome" },
	{ "buckets", 0, ON_STATS | ON_SERVE, GROUP_PRINT, "N",
		"Histogram buckets in metrics: 1 to 25, or none",
		read_buckets, AT(stats), 1, METRIC_BUCKETS, .values = "none" },
	{ "library-label", 0, ON_STATS | ON_SERVE, GROUP_PRINT, "HOW",
		"Name libraries in metrics by %s",
		read_second, AT(stats.choice.path_labels), .values = "soname|path" },
	{ "output", 'o', SHOW | ON_STREAM, GROUP_PRINT, "FILE", "Write the output to FILE",
		read_output, AT(output), .completes = "files" },
	{ "save", 0, VIEW, "FILE", WITH_NEXT,
		read_text, AT(stats.save), .completes = "files" },
	{ "diff", 0, VIEW, "FILE", "Save statistics to FILE; compare with FILE",
		read_diff, AT(stats), .completes = "files" },
	{ "fail-if", 0, VIEW, "COND", "Exit with status 3 if COND holds: 'p99>5ms'",
		read_check, AT(stats), .values = "errors>0|in_flight>0|p99>|slow>0" },
	{ "reset", 0, ON_STATS, GROUP_PRINT, NULL,
		"Reset the statistics after reading; no call is lost", read_flag, AT(stats.reset) },

	{ "stream", 0, ON_RUN, GROUP_STREAM, NULL, "Print each call, then the table",
		read_flag, AT(streams) },
	{ "pid", 'p', ON_STREAM, GROUP_STREAM, "PID", "Only calls of process PID",
		read_numbers, AT(stream.pids), 1, INT_MAX, .completes = "processes" },
	{ "function", 'f', STREAM, "FUNC", "Only calls of FUNC (a name or a glob)",
		read_texts, AT(stream.funcs), .completes = "functions" },
	{ "failed", 0, STREAM, NULL, WITH_NEXT, read_flag, AT(stream.filter.failed) },
	{ "min", 0, STREAM, "DUR", "Only failed calls; only calls of DUR or longer",
		read_duration, AT(stream.filter.min_ns) },
	{ "slow", 0, ON_STREAM, GROUP_STREAM, NULL, "Only slow calls",
		read_flag, AT(stream.filter.slow) },
	{ "sample", 0, ON_STREAM, GROUP_STREAM, "N", "Print one call in N",
		read_number, AT(stream.filter.sample), 1, UINT32_MAX },
	{ "number", 'n', ON_STREAM, GROUP_STREAM, "N", "Stop after N calls",
		read_number64, AT(stream.max_calls), 1, INT64_MAX },
	{ "show-sample", 0, ON_RUN, GROUP_STREAM, "N", WITH_NEXT,
		read_number, AT(stream.filter.sample), 1, UINT32_MAX },
	{ "number", 0, ON_RUN, GROUP_STREAM, "N", "Print one call in N; stop after N calls",
		read_number64, AT(stream.max_calls), 1, INT64_MAX },
	{ "events", 0, STREAM, "WHAT", "Print %s (default call)",
		read_events, AT(stream), .values = "call|entry|exit|all" },
	{ "alert", 0, STREAM, NULL, WITH_NEXT,
		read_flag, AT(stream.alert) },
	{ "buffer", 0, STREAM, "SIZE", "Slow calls to syslog, too; event buffer (16M)",
		read_size, AT(stream.buffer_bytes), STREAM_BUFFER_MIN, STREAM_BUFFER_MAX },

	{ "exit", 0, DEBUG, "HOW", "Catch returns by %s",
		read_choice, AT(attach.draft.rules.exit), .values = "auto|return|early|ret|none" },
	{ "site", 0, DEBUG, "HOW", "Probe at %s",
		read_second, AT(attach.draft.rules.site_entry), .values = "auto|entry" },
	{ "link", 0, DEBUG, "KIND", "Attach by %s links",
		read_link, AT(attach), .values = "auto|session|multi|perf" },

	{ "verbose", 'v', ON_LIST, 0, NULL, "List of groups: also filters, options and the user",
		read_flag, AT(list.verbose) },
	{ "types", 0, ON_LIST, 0, NULL, "With 'functions': print arguments and results",
		read_flag, AT(list.types) },
	{ "older-than", 0, ON_LIST, 0, "DUR", "With 'inflight', 'allocations': at least DUR old",
		read_duration, AT(list.older_ns) },
	{ "by", 0, ON_LIST, 0, "WHAT", "With 'allocations': one row per %s",
		read_choice, AT(list.by), .min = ALLOCATIONS_BY_FUNCTION,
		.values = "function|caller|stack|process" },
	{ "min", 0, ON_LIST, 0, "SIZE", "With 'allocations': only rows of SIZE or more",
		read_size, AT(list.min_bytes), .max = UINT64_MAX },
	{ "all", 'a', ON_LIST, 0, NULL, "With 'inflight': include stale calls",
		read_flag, AT(list.all) },
	{ "stack", 0, ON_LIST, 0, NULL, "With 'inflight': print stacks of sleeping threads",
		read_flag, AT(list.stacks) },
	{ "lines", 0, ON_LIST, 0, NULL, "Add source lines to stacks and callers",
		read_flag, AT(list.lines) },

	{ "lines", 0, ON_STACK, 0, NULL, "Print source lines and inlined functions",
		read_flag, AT(list.lines) },
	{ "verbose", 'v', ON_STACK, 0, NULL, "Print the kernel's frames, too",
		read_flag, AT(list.verbose) },

	{ "slow", 0, ON_SET, 0, "[FUNC=]DUR", "Remember calls of DUR or longer; 'off' ends that",
		read_slow, AT(attach.slow), .values = "off" },
	{ "pid", 'p', ON_SET, 0, "PID", "Only process PID; 'all': every process",
		read_numbers, AT(attach.pids), 1, PID_MAX, .values = "all",
		.completes = "processes" },
	{ "comm", 0, ON_SET, 0, "NAME", "Only threads with command name NAME; 'all': every one",
		read_texts, AT(attach.comms), .values = "all" },
	{ "uid", 0, ON_SET, 0, "USER", "Only processes of USER; 'all': of every user",
		read_users, AT(attach.uids), .values = "all", .completes = "users" },
	{ "if", 0, ON_SET, 0, "COND", "Only calls whose arguments match; 'all': every call",
		read_if, AT(attach), .values = "all" },

	{ "all", 'a', ON_DETACH, 0, NULL, "All groups", read_flag, AT(all) },

	{ "fail-if", 0, ON_COMPARE, 0, "WHAT", "Exit with status 3 if a node is %s",
		read_finding, AT(fail_if), .values = "any|behind|fewer|absent|amount|slower" },

	{ "inetd", 0, ON_SERVE, 0, NULL, "Answer one request, on standard input",
		read_flag, AT(inetd) },
	{ "timeout", 0, ON_SERVE, 0, "SEC", "Time limit for the request and for the answer (5)",
		read_seconds, AT(timeout_ns) },
	{ "by", 0, ON_SERVE, 0, "WHAT", "Series per process, cgroup, or KEY[,KEY]",
		read_metrics_by, AT(stats), .values = "process|cgroup", .completes = "keys" },
	{ "top", 0, ON_SERVE, 0, "N", "At most N series per function (default 100)",
		read_from_one, AT(stats.choice.top) },

	{ "fresh", 0, ON_FEATURE, 0, NULL, "Make the experiments again", read_flag, AT(fresh) },
	{ "calibrate", 0, ON_FEATURE, 0, NULL, "Measure what a probed call costs here",
		read_flag, AT(calibrate) },

	{ "json", 'j', COMMON, NULL, "Print JSON, also errors", read_flag, IN(json) },
	/* After the command, -p and -d are options of the command. */
	{ "pretty", 'p', ON_FIRST, GROUP_COMMON, NULL, "Indent JSON", read_pretty, .at = 0 },
	{ "pretty", 0, ON_EACH, GROUP_COMMON, NULL, "Indent JSON", read_pretty, .at = 0 },
	{ "quiet", 'q', COMMON, NULL, "Print no notes", read_flag, IN(quiet) },
	{ "debug", 'd', ON_FIRST, GROUP_COMMON, NULL, "Print libbpf's log", read_debug, .at = 0 },
	{ "debug", 0, ON_EACH, GROUP_COMMON, NULL, "Print libbpf's log", read_debug, .at = 0 },
	{ "bpffs", 0, COMMON, "DIR", "Use this bpffs (default /sys/fs/bpf)",
		read_text, IN(bpffs), .completes = "folders" },
	{ "color", 0, COMMON, "WHEN", "Use colors: %s",
		read_choice, IN(color), .values = "auto|always|never" },
	{ "version", 'V', ON_FIRST, GROUP_COMMON, NULL, "Print the version", .read = NULL },
	{ "help", 'h', COMMON, NULL, "Print this text", .read = NULL },
	{ NULL, '?', COMMON, .read = NULL },
	{ "usage", 0, ON_EACH, GROUP_COMMON, NULL, "Print the options alone", .read = NULL },
	{ "usage", 0, ON_FIRST, GROUP_COMMON, .read = NULL },
	{ .on = 0 },
};
/* clang-format on */

_Static_assert(ARRAY_SIZE(option_table) <= OPTIONS_MAX, "OPTIONS_MAX");

const struct option_rule option_rules[] = {
	{ RECORD, IMPLIES, "blocks", "memory", .message = NULL },
	{ ON_ATTACH, IMPLIES, "refresh", "replace", .message = NULL },
	{ ON_RUN, IMPLIES, "function failed min show-sample number events alert buffer", "stream",
		.message = NULL },
	{ RECORD, NEEDS, "keys", "key sum stacks memory by",
		"--keys needs --key or --sum: of what?" },
	{ RECORD, EXCLUDES, "memory", "count",
		"--memory needs the ends of calls: not with --count" },
	{ RECORD, EXCLUDES, "slow", "count", "--slow cannot be combined with --count" },
	{ RECORD, EXCLUDES, "split", "count", "--split cannot be combined with --count" },
	{ ON_RUN, EXCLUDES, "hist", "count", "--hist cannot be combined with --count" },
	{ ON_RUN, EXCLUDES, "errors", "count", "--errors cannot be combined with --count" },
	{ ON_RUN, EXCLUDES, "tree", "no-nesting", "--tree cannot be combined with --no-nesting" },
	{ RECORD, EXCLUDES, "no-keys", "key sum stacks",
		"--no-keys does without what --key and --sum ask for" },
	{ RECORD, EXCLUDES, "tid", "children",
		"--tid and --children exclude each other: threads have none" },
	{ ON_ATTACH, NEEDS, "children", "pid", "--children needs --pid: whose?" },
	{ ON_ATTACH, NEEDS, "verbose", "dry-run", "--verbose goes with --dry-run" },
	{ ON_RUN, EXCLUDES, "stream", "interval watch",
		"--stream excludes --interval and --watch" },
	{ SHOW, EXCLUDES, "watch", "format json pretty output save diff reset fail-if",
		"--watch shows what is now: no --format, --json, --output, --save, --diff, "
		"--reset, --fail-if" },
	{ ON_STATS, EXCLUDES, "save diff", "interval duration",
		"--save and --diff do not go with --interval or --duration" },
	{ ON_RUN, EXCLUDES, "save diff", "interval",
		"--save and --diff do not go with --interval or --duration" },
	{ .on = 0 },
};
