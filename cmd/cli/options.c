// SPDX-License-Identifier: BSD-2-Clause
// Values of options: numbers, times, sizes, choices, lists; and the table of options, one row per
// option, in the order of the help.
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/util.h"
#include "cli/options.h"

static int read_flag(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	*(bool *)at = true;
	return 0;
}

static int read_off(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	*(bool *)at = false;
	return 0;
}

static int read_text(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	*(const char **)at = arg;
	return 0;
}

static int read_output(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	*(const char **)at = strcmp(arg, "-") ? arg : NULL;
	return 0;
}

static int read_pretty(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct globals *g = at;

	g->json = g->pretty = true;
	return 0;
}

static void print_log(const char *line)
{
	fprintf(stderr, "%s\n", line);
}

static int read_debug(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct globals *g = at;

	g->debug = true;
	log_init(print_log);
	return 0;
}

/* --- numbers, times, sizes ------------------------------------------------------------------ */

static bool digits(const char *arg, uint64_t *ret_number)
{
	char *end;

	errno = 0;
	*ret_number = strtoull(arg, &end, 10);
	return isdigit((unsigned char)arg[0]) && !*end && !errno;
}

static int read_number64(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	uint64_t n;

	if (!digits(arg, &n) || n < opt->min || n > opt->max)
		return err_set(err, -ERR_USAGE, "--%s '%s' is not a number from %llu to %llu", opt->name,
			arg, (unsigned long long)opt->min, (unsigned long long)opt->max);
	*(uint64_t *)at = n;
	return 0;
}

int read_number(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	uint64_t n = 0;
	int code = read_number64(&n, opt, arg, err);

	if (!code)
		*(uint32_t *)at = n;
	return code;
}

int read_from_one(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	uint64_t n;

	if (!digits(arg, &n) || !n)
		return err_set(err, -ERR_USAGE, "--%s '%s' is not a number above 0",
			opt->name, arg);
	*(size_t *)at = n;
	return 0;
}

#define SHARE_MAX_PERCENT 10000

/* A share of a CPU such as "5%", in millionths. */
int read_share(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	size_t len = strspn(arg, "0123456789.");
	double percent = strtod(arg, NULL);

	if (!isdigit((unsigned char)*arg) || strcmp(arg + len, "%") != 0 ||
		strchr(arg, '.') != strrchr(arg, '.'))
		return err_set(err, -ERR_USAGE,
			"--%s '%s' is not a share such as 5%%", opt->name, arg);
	if (percent < 0.01 || percent > SHARE_MAX_PERCENT)
		return err_set(err, -ERR_USAGE, "--%s '%s' is not from 0.01%% to %d%%",
			opt->name, arg, SHARE_MAX_PERCENT);
	*(uint32_t *)at =
		percent * 10000 + 1e-6; /* rounding error of a decimal fraction */
	return 0;
}

static int read_duration(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	uint64_t *ns = at;

	if (duration_parse(arg, ns, err))
		return err_wrap(err, "--%s", opt->name);
	if (*ns < opt->min)
		return err_set(
			err, -ERR_USAGE, "--%s '%s' is too short", opt->name, arg);
	return 0;
}

/* "2", "0.5", or a duration with its unit. */
static int read_seconds(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	char text[64];
	size_t len = strlen(arg);
	bool bare = len && (isdigit((unsigned char)arg[len - 1]) || arg[len - 1] == '.');
	uint64_t *ns = at;

	snprintf(text, sizeof(text), "%s%s", arg, bare ? "s" : "");
	if (len > 32 || duration_parse(text, ns, NULL))
		return err_set(err, -ERR_USAGE, "--%s '%s' is not a number of seconds",
			opt->name, arg);
	if (*ns < 1000000 || *ns > 1000000000000000ULL)
		return err_set(err, -ERR_USAGE,
			"--%s '%s' is not between 1 ms and 11 days", opt->name, arg);
	return 0;
}

static void put_size(uint64_t n, char buf[32])
{
	size_t unit = 0;

	for (; unit < 3 && n && !(n & 1023); n >>= 10)
		unit++;
	snprintf(buf, 32, "%llu%.1s", (unsigned long long)n, &"\0KMG"[unit]);
}

int read_size(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	char from[32], to[32], unit;
	uint64_t *bytes = at;
	size_t len = strlen(arg);

	unit = len ? toupper((unsigned char)arg[len - 1]) : 0;
	if (unit == 'K' || unit == 'M' || unit == 'G')
		arg[len - 1] = unit;
	if (!size_parse(arg, bytes) && *bytes >= opt->min && *bytes <= opt->max)
		return 0;
	if (opt->max == UINT64_MAX)
		return err_set(err, -ERR_USAGE, "--%s '%s' is not a size such as 4096, 64K, 1M or 2G",
			opt->name, arg);
	put_size(opt->min, from);
	put_size(opt->max, to);
	return err_set(err, -ERR_USAGE, "--%s '%s' is not a size from %s to %s",
		opt->name, arg, from, to);
}

/* --- one of several words ------------------------------------------------------------------- */

static const char *part_words(const struct option_row *opt, char buf[WORDS_LEN]);

const char *option_values(const struct option_row *opt, char buf[WORDS_LEN])
{
	if (opt->words)
		return opt->words(buf);
	return opt->read == read_parts && !opt->values ? part_words(opt, buf) : opt->values;
}

const char *values_text(const char *values, char buf[VALUES_LEN])
{
	size_t at = 0, len;

	for (*buf = '\0'; *values; values += len + (values[len] == '|')) {
		len = strcspn(values, "|");
		at += snprintf(buf + at, VALUES_LEN - at, "%s%.*s",
			!at                   ? ""
				: values[len] ? ", "
					      : " or ",
			(int)len, values);
	}
	return buf;
}

/* Stores the index of @arg in the values, plus .min. */
int read_choice(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	char buf[WORDS_LEN], text[VALUES_LEN];
	const char *values = option_values(opt, buf), *value = values;
	unsigned int choice = opt->min;
	size_t len;

	for (; *value; value += len + (value[len] == '|'), choice++) {
		len = strcspn(value, "|");
		if (strlen(arg) == len && !memcmp(arg, value, len)) {
			*(unsigned int *)at = choice;
			return 0;
		}
	}
	return err_set(err, -ERR_USAGE, "--%s is %s, not '%s'", opt->name,
		values_text(values, text), arg);
}

static int read_second(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	unsigned int choice;
	int code = read_choice(&choice, opt, arg, err);

	if (!code)
		*(bool *)at = choice == 1;
	return code;
}

/* --- parts: "a=1,b" ------------------------------------------------------------------------- */

const char *option_part(const struct option_row *opt)
{
	const char *blank = opt->name ? strchr(opt->name, ' ') : NULL;

	return blank ? blank + 1 : NULL;
}

static const char *part_of(const struct option_row *opt, const struct option_row *row)
{
	size_t len = strlen(opt->name);

	return row->on & opt->on && row->name && !strncmp(row->name, opt->name, len) &&
			row->name[len] == ' '
		? row->name + len + 1
		: NULL;
}

/* "a=N|b|DUR" */
static const char *part_words(const struct option_row *opt, char buf[WORDS_LEN])
{
	size_t at = 0;

	for (const struct option_row *row = option_table; row->on; row++) {
		const char *part = part_of(opt, row);

		/* A part of several commands may have a row for each. */
		if (part && strcmp(row[-1].name, row->name) != 0)
			at += snprintf(buf + at, WORDS_LEN - at, "%s%s%s%s", at ? "|" : "", part,
				row->arg && islower((unsigned char)*part) ? "=" : "",
				row->arg && islower((unsigned char)*part) ? row->arg : "");
	}
	return buf;
}

/* Also sets @value to the text that the part parses. NULL: there is none, or its value lacks. */
static const struct option_row *find_part(
	const struct option_row *opt, char *item, char **ret_value)
{
	size_t len = strcspn(item, "=");

	for (const struct option_row *row = option_table; *item && row->on; row++) {
		const char *part = part_of(opt, row);

		if (!part)
			continue;
		*ret_value = isupper((unsigned char)*part) ? item
			: item[len]                        ? item + len + 1
							   : NULL;
		if (*ret_value == item ||
			(!strncmp(part, item, len) && !part[len] && !row->arg == !*ret_value))
			return row;
	}
	return NULL;
}

int read_parts(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	char words[WORDS_LEN], text[VALUES_LEN], *item, *value;
	int code = 0;

	while (!code && (item = strsep(&arg, ","))) {
		const struct option_row *part = find_part(opt, item, &value);

		code = part ? option_read(at, part, value, err)
			    : err_set(err, -ERR_USAGE, "--%s is %s, not '%s'", opt->name,
				      values_text(part_words(opt, words), text), item);
	}
	return code;
}

static int read_old(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	return option_read(at, option_find(opt->on, opt->values), arg, err);
}

/* --- lists ---------------------------------------------------------------------------------- */

/* The value "all", if the option has it, adds nothing. */
static bool is_all(struct list *list, const struct option_row *opt, const char *arg)
{
	list->given = true;
	return opt->values && !strcmp(arg, opt->values);
}

void list_add(struct list *list, const void *value, size_t size)
{
	list->of = array_grow(list->of, list->cnt, size);
	memcpy((char *)list->of + list->cnt++ * size, value, size);
}

static int read_texts(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	if (!is_all(at, opt, arg))
		list_add(at, &arg, sizeof(arg));
	return 0;
}

int read_numbers(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	uint32_t n;
	int code = 0;

	if (is_all(at, opt, arg))
		return 0;
	code = read_number(&n, opt, arg, err);
	if (!code)
		list_add(at, &n, sizeof(n));
	return code;
}

static int read_users(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	uid_t uid = (uid_t)-1;
	gid_t gid = (gid_t)-1;

	if (is_all(at, opt, arg))
		return 0;
	if (strchr(arg, ':'))
		return err_set(err, -ERR_USAGE, "--%s '%s' is not a user", opt->name, arg);
	if (parse_owner(arg, &uid, &gid, err))
		return err_wrap(err, "--%s", opt->name);
	list_add(at, &uid, sizeof(uid));
	return 0;
}

/* "[FUNC=]DUR", or "off" for DUR if the option has that value. */
static int read_slow(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	char *eq = strrchr(arg, '='), *dur = eq ? eq + 1 : arg;
	struct draft_slow slow = { .ns = SLOW_OFF };

	if ((!opt->values || strcmp(dur, opt->values) != 0) &&
		duration_parse(dur, &slow.ns, err))
		return err_wrap(err, "--%s", opt->name);
	if (eq) {
		*eq = '\0';
		slow.func = arg;
	}
	list_add(at, &slow, sizeof(slow));
	return 0;
}

/* --- the table ------------------------------------------------------------------------------ */

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

	snprintf(buf + len, WORDS_LEN - len, "|text|chrome|perfetto");
	return buf;
}

/* Views, keys that calls are recorded by, and "none". */
static const char *by_words(char buf[WORDS_LEN])
{
	size_t len = strlen(view_by_words(buf));

	snprintf(buf + len, WORDS_LEN - len,
		"|caller|comm|communicator|goroutine|kernel|lock|range|result|thread|waker_stack|none");
	return buf;
}

/* An option of an earlier version: @new is its name now, with its value if that is fixed. */
#define OLD(on, letter, name, arg, new) { name, letter, on, GROUP_OLD, arg, NULL, read_old, .values = new }

/* clang-format off */
const struct option_row option_table[] = {
	{ "lib", 'l', TRACE, "LIB", "Look up functions in LIB: path, soname or name",
		read_texts, AT(attach.libs), .completes = "libraries" },
	{ "regex", 'r', TRACE, NULL, "Treat FUNCTIONs as POSIX extended regular expressions",
		read_flag, AT(attach.draft.regex) },
	{ "config", 0, TRACE, "FILE", "Read the group from a JSON file",
		read_text, AT(attach.config), .completes = "files" },
	{ "name", 0, TRACE, "NAME", "Name the group NAME instead of GROUP",
		read_text, AT(attach.name) },
	{ "force", 0, TRACE, NULL, "Attach even if very many functions or processes match",
		read_flag, AT(attach.force) },

	{ "pid", 'p', FILTER, "PID[+]", "Only process PID; PID+: and its new children",
		read_pid, AT(attach), 1, PID_MAX, .completes = "processes" },
	{ "if", 0, FILTER, "COND", "Only matching calls: 'size >= 1M && comm == nginx'",
		read_if, .completes = "arguments",
		.values = "pid==|tid==|uid==|comm==|cgroup==|cpu==" },
	{ "if pid", 0, FILTER, "PID", NULL, read_numbers, AT(attach.pids), 1, PID_MAX },
	{ "if tid", 0, FILTER, "TID", NULL, read_numbers, AT(attach.tids), 1, PID_MAX },
	{ "if uid", 0, FILTER, "USER", NULL, read_users, AT(attach.uids) },
	{ "if comm", 0, FILTER, "NAME", NULL, read_texts, AT(attach.comms) },
	{ "if cgroup", 0, FILTER, "PATH", NULL, read_texts, AT(attach.cgroups) },
	{ "if cpu", 0, FILTER, "N", NULL, read_numbers, AT(attach.cpus), 0, 1 << 20 },

	{ "by", 0, ON_RUN, GROUP_RECORD, "WHAT[,KEY]", "Group by process, stack, caller, an argument, ...",
		read_run_by, .words = by_words, .completes = "arguments" },
	{ "by", 0, ON_ATTACH, GROUP_RECORD, "KEY[,KEY]", "Record calls by stack, caller, an argument, ...",
		read_attach_by, AT(attach), .completes = "arguments",
		.values = "caller|cgroup|comm|communicator|goroutine|kernel|lock|range|result|stack|thread|waker_stack|none" },
	{ "by stack", 0, HOW, "HOW", NULL, read_stacks, AT(attach), 1, UINT32_MAX },
	{ "sum", 0, HOW, "ARG", "Sum argument ARG, or the result",
		read_key, AT(attach), .completes = "arguments" },
	{ "with", 0, HOW, "WHAT", "Also: split (on-CPU, blocked), memory (live bytes)", .read = read_parts },
	{ "with split", 0, HOW, NULL, NULL, read_flag, AT(attach.attach.split) },
	{ "with memory", 0, HOW, NULL, NULL, read_flag, AT(attach.memory) },
	{ "without", 0, ON_ATTACH, GROUP_RECORD, "WHAT", "Leave out nesting, processes or correction",
		.read = read_parts },
	{ "without", 0, ON_RUN, GROUP_RECORD, "WHAT", "Leave out nesting, children, kernel (frames), ...",
		.read = read_parts },
	{ "without nesting", 0, HOW, NULL, NULL, read_off, AT(attach.attach.nesting) },
	{ "without processes", 0, HOW, NULL, NULL, read_off, AT(attach.attach.processes) },
	{ "without correction", 0, HOW, NULL, NULL, read_flag, AT(attach.attach.raw) },
	{ "without children", 0, ON_RUN, GROUP_RECORD, NULL, NULL, read_flag, AT(no_children) },
	{ "without", 0, ON_STATS, GROUP_PRINT, "kernel", "Leave out frames of the kernel from stacks",
		.read = read_parts },
	{ "without kernel", 0, VIEW, NULL, NULL, read_flag, AT(stats.choice.no_kernel) },
	{ "count", 0, HOW, NULL, "Count calls without timing them (lowest overhead)",
		read_flag, AT(attach.draft.rules.count_only) },
	{ "sample", 0, HOW, "1/N", "Time one call in N; 99hz: CPU samples per second",
		read_sample, AT(attach), .values = "1/10|1/100|99hz" },
	{ "overhead", 0, HOW, "SHARE", "Limit the overhead to SHARE of the CPU time, or none",
		read_overhead, AT(attach), .values = "1%|5%|10%|none" },
	{ "slow", 0, HOW, "[FUNC=]DUR", "Remember calls that take DUR or longer, such as 5ms",
		read_slow, AT(attach.slow) },
	{ "limit", 0, ON_ATTACH, GROUP_RECORD, "WHAT=N", "At most rows=N (16384), allocations=N (262144)",
		.read = read_parts },
	{ "limit", 0, ON_RUN, GROUP_RECORD, "WHAT=N", "rows=N (16384), allocations=N (262144), buffer=SIZE",
		.read = read_parts },
	{ "limit rows", 0, HOW, "N", NULL, read_number, AT(attach.keys.rows), 1, KEYS_MAX },
	{ "limit allocations", 0, HOW, "N", NULL,
		read_number, AT(attach.attach.blocks), 1, BLOCKS_MAX },
	{ "limit buffer", 0, STREAM, "SIZE", NULL,
		read_size, AT(stream.buffer_bytes), STREAM_BUFFER_MIN, STREAM_BUFFER_MAX },

	{ "duration", 'd', KEEP, "SEC", "Detach the group after SEC seconds, or 5m, 2h, ...",
		read_seconds, AT(attach.attach.for_ns) },
	{ "dry-run", 'n', KEEP, NULL, "Print what would be probed and why; attach nothing",
		read_flag, AT(attach.dry_run) },
	{ "verbose", 'v', KEEP, NULL, "With --dry-run: also print the functions' types",
		read_flag, AT(attach.verbose) },
	{ "replace", 0, KEEP, NULL, "Replace a group of that name",
		read_flag, AT(attach.attach.replace) },
	{ "refresh", 0, KEEP, NULL, "Replace a group of that name if it differs",
		read_flag, AT(attach.refresh) },
	{ "share", 0, KEEP, "MODE", "Let others read: 0644, 0640,:GROUP, 0644,all",
		.read = read_parts, .values = "0644|0640|all" },
	{ "share all", 0, KEEP, NULL, NULL, read_flag, AT(attach.attach.access.all) },
	{ "share MODE", 0, KEEP, "MODE", NULL, read_access, AT(attach) },

	{ "duration", 'd', SHOW | ON_STREAM, GROUP_PRINT, "SEC", "Stop after SEC seconds, or 500ms, 5m, ...",
		read_seconds, AT(duration_ns) },
	{ "interval", 'i', VIEW, "SEC", "Print statistics every SEC seconds",
		read_seconds, AT(stats.interval_ns) },
	{ "watch", 0, VIEW, NULL, "Refresh the table in place, like top(1)",
		read_flag, AT(stats.watch) },
	{ "by", 0, ON_STATS, GROUP_PRINT, "WHAT", "One row per %s, or per KEY[,KEY]",
		read_by, AT(stats), .words = view_by_words, .completes = "keys" },
	{ "show", 0, VIEW, "WHAT", "Print hist, errors, slow (calls) or tree (of calls)", .read = read_parts },
	{ "show hist", 0, VIEW, NULL, NULL, read_view, AT(stats) },
	{ "show errors", 0, VIEW, NULL, NULL, read_view, AT(stats) },
	{ "show slow", 0, VIEW, NULL, NULL, read_view, AT(stats) },
	{ "show tree", 0, VIEW, NULL, NULL, read_view, AT(stats) },
	{ "sort", 0, VIEW, "KEY", "Sort by %s",
		read_sort, AT(stats), .words = stats_sort_words },
	{ "top", 0, VIEW, "N|SHARE", "Print N rows; with stacks: frames from SHARE (1%)",
		read_top, AT(stats), .values = "10|5%" },
	{ "all", 'a', VIEW, NULL, "Include functions that were never called",
		read_flag, AT(stats.choice.all) },
	{ "lines", 0, VIEW, NULL, "Add source lines and inlined functions to stacks",
		read_flag, AT(stats.choice.lines) },
	{ "format", 0, ON_RUN, GROUP_PRINT, "FORMAT", "%s",
		read_text, AT(format), .words = run_formats },
	{ "format", 0, ON_STATS, GROUP_PRINT, "FORMAT", "%s",
		read_format, .words = stats_format_words },
	{ "format", 0, ON_SERVE, 0, "FORMAT", "%s; :buckets=8,path selects details",
		read_format, .values = "prometheus|openmetrics" },
	{ "format", 0, ON_STREAM, GROUP_PRINT, "FORMAT", "Print as %s",
		read_stream_format, AT(stream), .values = "text|json|chrome|perfetto" },
	{ "format buckets", 0, ON_STATS | ON_SERVE, GROUP_PRINT, "N", NULL,
		read_buckets, AT(stats), 1, METRIC_BUCKETS },
	{ "format path", 0, ON_STATS | ON_SERVE, GROUP_PRINT, NULL, NULL,
		read_flag, AT(stats.choice.path_labels) },
	{ "output", 'o', SHOW | ON_STREAM, GROUP_PRINT, "FILE", "Write the output to FILE",
		read_output, AT(output), .completes = "files" },
	{ "diff", 0, VIEW, "FILE", "Compare with FILE, which '--json -o FILE' wrote",
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
	{ "only", 0, STREAM, "WHAT", "Only slow, failed, 5ms (or longer) or 1/N calls", .read = read_parts },
	{ "only slow", 0, STREAM, NULL, NULL, read_flag, AT(stream.filter.slow) },
	{ "only failed", 0, STREAM, NULL, NULL, read_flag, AT(stream.filter.failed) },
	{ "only DUR", 0, STREAM, "DUR", NULL, read_only, AT(stream), 1, UINT32_MAX },
	{ "number", 'n', ON_STREAM, GROUP_STREAM, "N", "Stop after N calls",
		read_number64, AT(stream.max_calls), 1, INT64_MAX },
	{ "number", 0, ON_RUN, GROUP_STREAM, "N", "Stop after N calls",
		read_number64, AT(stream.max_calls), 1, INT64_MAX },
	{ "events", 0, STREAM, "WHAT", "Print %s (default call)",
		read_events, AT(stream), .values = "call|entry|exit|all" },
	{ "alert", 0, STREAM, NULL, "Also send slow calls to syslog as warnings",
		read_flag, AT(stream.alert) },
	{ "limit", 0, ON_STREAM, GROUP_STREAM, "WHAT=N", "buffer=SIZE: of calls not yet printed (16M)",
		.read = read_parts },

	{ "probe", 0, DEBUG, "exit=HOW,site=HOW,link=KIND", "", .read = read_parts },
	{ "probe exit", 0, DEBUG, "HOW", NULL,
		read_choice, AT(attach.draft.rules.exit), .values = "auto|return|early|ret|none" },
	{ "probe site", 0, DEBUG, "HOW", NULL,
		read_second, AT(attach.draft.rules.site_entry), .values = "auto|entry" },
	{ "probe link", 0, DEBUG, "KIND", NULL,
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
	{ "top", 0, ON_LIST, 0, "N|SIZE", "With 'allocations': N rows; rows from 1M, 64K, ...",
		read_list_top, AT(list), .max = UINT64_MAX, .values = "10|1M" },
	{ "all", 'a', ON_LIST, 0, NULL, "With 'inflight': include stale calls",
		read_flag, AT(list.all) },
	{ "stack", 0, ON_LIST, 0, NULL, "Stacks of sleeping threads ('inflight') or 'crashes'",
		read_flag, AT(list.stacks) },
	{ "lines", 0, ON_LIST, 0, NULL, "Add source lines to stacks and callers",
		read_flag, AT(list.lines) },

	{ "format", 0, ON_STACK, 0, "FORMAT", "Print threads by stack as %s",
		read_choice, AT(list.format), .min = STACK_FOLDED, .values = "folded|flame" },
	{ "lines", 0, ON_STACK, 0, NULL, "Print source lines and inlined functions",
		read_flag, AT(list.lines) },
	{ "verbose", 'v', ON_STACK, 0, NULL, "Print the kernel's frames, too",
		read_flag, AT(list.verbose) },

	{ "slow", 0, ON_SET, 0, "[FUNC=]DUR", "Remember calls of DUR or longer; 'off' ends that",
		read_slow, AT(attach.slow), .values = "off" },
	{ "pid", 'p', ON_SET, 0, "PID", "Only process PID; 'all': every process",
		read_numbers, AT(attach.pids), 1, PID_MAX, .values = "all",
		.completes = "processes" },
	{ "if", 0, ON_SET, 0, "COND", "Only matching calls; 'all', 'comm==all': every call",
		read_if, .values = "all" },
	{ "if pid", 0, ON_SET, 0, "PID", NULL,
		read_numbers, AT(attach.pids), 1, PID_MAX, .values = "all" },
	{ "if comm", 0, ON_SET, 0, "NAME", NULL, read_texts, AT(attach.comms), .values = "all" },
	{ "if uid", 0, ON_SET, 0, "USER", NULL, read_users, AT(attach.uids), .values = "all" },

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

	{ "fresh", 0, ON_FEATURE, 0, NULL, "Run the self-tests again", read_flag, AT(fresh) },
	{ "calibrate", 0, ON_FEATURE, 0, NULL, "Measure what a probed call costs here",
		read_flag, AT(calibrate) },

	{ "json", 'j', COMMON, NULL, "Print JSON, also errors", read_flag, IN(json) },
	/* `funcsnoop -p PID` is `funcsnoop run -p PID`. */
	{ "pid", 'p', ON_FIRST, GROUP_COMMON, "PID", "As run --pid PID",
		.read = NULL, .completes = "processes" },
	/* After the command, -d is an option of the command. */
	{ "pretty", 0, COMMON, NULL, NULL, read_pretty, .at = 0 },
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
	{ "usage", 0, COMMON, .read = NULL },

	/* Names of the last version. */
	OLD(RECORD, 0, "tid", "TID", "if tid"),
	OLD(RECORD, 0, "cpu", "N", "if cpu"),
	OLD(RECORD, 0, "comm", "NAME", "if comm"),
	OLD(ON_SET, 0, "comm", "NAME", "if comm"),
	OLD(RECORD, 0, "uid", "USER", "if uid"),
	OLD(ON_SET, 0, "uid", "USER", "if uid"),
	OLD(RECORD, 0, "cgroup", "PATH", "if cgroup"),
	/* For the runs of a summary. */
	{ "ready-fd", 0, ON_RUN, GROUP_OLD, "N", NULL, read_number, AT(ready_fd), 3, INT_MAX },
	{ "document-fd", 0, ON_RUN, GROUP_OLD, "N", NULL, read_number, AT(document_fd), 3, INT_MAX },
	{ "width", 0, ON_RUN, GROUP_OLD, "N", NULL, read_number, AT(width), 1, INT_MAX },
	{ "children", 0, RECORD, GROUP_OLD, NULL, NULL, read_flag, AT(attach.attach.children) },
	OLD(ON_RUN, 0, "no-children", NULL, "without children"),
	{ "budget", 0, RECORD, GROUP_OLD, "SHARE", NULL, read_overhead, AT(attach) },
	OLD(RECORD, 0, "stacks", "HOW", "by stack"),
	{ "key", 0, RECORD, GROUP_OLD, "KEY[,KEY]", NULL, read_key, AT(attach) },
	{ "no-keys", 0, RECORD, GROUP_OLD, NULL, NULL, read_flag, AT(attach.no_keys) },
	OLD(RECORD, 0, "split", NULL, "with split"),
	OLD(RECORD, 0, "memory", NULL, "with memory"),
	OLD(RECORD, 0, "no-processes", NULL, "without processes"),
	OLD(RECORD, 0, "no-nesting", NULL, "without nesting"),
	OLD(RECORD, 0, "raw", NULL, "without correction"),
	OLD(RECORD, 0, "keys", "N", "limit rows"),
	OLD(RECORD, 0, "blocks", "N", "limit allocations"),
	OLD(CALLS, 0, "buffer", "SIZE", "limit buffer"),
	{ "rate", 0, RECORD, GROUP_OLD, "N", NULL, read_number, AT(attach.attach.rate), 1, RATE_MAX },
	{ "duty", 0, RECORD, GROUP_OLD, "1/N", NULL, read_duty, AT(attach) },
	{ "for", 0, ON_ATTACH, GROUP_OLD, "DUR", NULL, read_duration, AT(attach.attach.for_ns), 1 },
	OLD(ON_ATTACH, 0, "mode", "MODE", "share MODE"),
	{ "owner", 0, ON_ATTACH, GROUP_OLD, "USER:GROUP", NULL, read_owner, AT(attach) },
	OLD(ON_ATTACH, 0, "mode-all", NULL, "share all"),
	OLD(RECORD, 0, "exit", "HOW", "probe exit"),
	OLD(RECORD, 0, "site", "HOW", "probe site"),
	OLD(RECORD, 0, "link", "KIND", "probe link"),
	OLD(SHOW, 0, "hist", NULL, "show hist"),
	OLD(SHOW, 0, "errors", NULL, "show errors"),
	OLD(SHOW, 0, "tree", NULL, "show tree"),
	OLD(ON_STATS, 0, "slow", NULL, "show slow"),
	{ "show-slow", 0, ON_RUN, GROUP_OLD, NULL, NULL, read_flag, AT(show_slow) },
	{ "min", 0, ON_STATS, GROUP_OLD, "SHARE", NULL, read_share, AT(stats.choice.min_share) },
	OLD(CALLS, 0, "min", "DUR", "only DUR"),
	{ "min", 0, ON_LIST, GROUP_OLD, "SIZE", NULL, read_size, AT(list.min_bytes), .max = UINT64_MAX },
	{ "timestamp", 'T', SHOW, GROUP_OLD, NULL, NULL, read_flag, AT(stats.timestamps) },
	OLD(ON_STATS | ON_SERVE, 0, "buckets", "N", "format buckets"),
	{ "library-label", 0, ON_STATS | ON_SERVE, GROUP_OLD, "HOW", NULL,
		read_second, AT(stats.choice.path_labels), .values = "soname|path" },
	{ "save", 0, SHOW, GROUP_OLD, "FILE", NULL, read_text, AT(stats.save) },
	OLD(CALLS, 0, "failed", NULL, "only failed"),
	OLD(ON_STREAM, 0, "slow", NULL, "only slow"),
	{ "sample", 0, ON_STREAM, GROUP_OLD, "N", NULL,
		read_number, AT(stream.filter.sample), 1, UINT32_MAX },
	{ "show-sample", 0, ON_RUN, GROUP_OLD, "N", NULL,
		read_number, AT(stream.filter.sample), 1, UINT32_MAX },
	{ .on = 0 },
};
/* clang-format on */

_Static_assert(ARRAY_SIZE(option_table) <= OPTIONS_MAX, "OPTIONS_MAX");

const struct option_rule option_rules[] = {
	{ RECORD, IMPLIES, "limit allocations", "with memory", .message = NULL },
	{ ON_ATTACH, IMPLIES, "refresh", "replace", .message = NULL },
	{ ON_RUN, IMPLIES, "function|only slow|only failed|only DUR|show-sample|number|events|alert|limit buffer",
		"stream", .message = NULL },
	{ RECORD, EXCLUDES, "with memory", "count",
		"--with memory needs the returns of calls: not with --count" },
	{ RECORD, EXCLUDES, "slow", "count", "--slow cannot be combined with --count" },
	{ RECORD, EXCLUDES, "with split", "count", "--with split cannot be combined with --count" },
	{ ON_RUN, EXCLUDES, "show hist", "count", "--show hist cannot be combined with --count" },
	{ ON_RUN, EXCLUDES, "show errors", "count", "--show errors cannot be combined with --count" },
	{ ON_RUN, EXCLUDES, "show tree", "without nesting",
		"--show tree cannot be combined with --without nesting" },
	{ ON_ATTACH, NEEDS, "children", "pid", "--children needs --pid: whose?" },
	{ ON_ATTACH, NEEDS, "verbose", "dry-run", "--verbose goes with --dry-run" },
	{ ON_STACK, EXCLUDES, "format", "json", "--format cannot be combined with --json" },
	{ ON_RUN, EXCLUDES, "stream", "interval|watch",
		"--stream excludes --interval and --watch" },
	{ SHOW, EXCLUDES, "watch", "format|json|pretty|output|save|diff|reset|fail-if",
		"--watch shows what is now: no --format, --json, --output, --diff, --reset, "
		"--fail-if" },
	{ ON_STATS, EXCLUDES, "save|diff", "interval|duration",
		"--diff cannot be combined with --interval or --duration" },
	{ ON_RUN, EXCLUDES, "save|diff", "interval",
		"--diff cannot be combined with --interval" },
	{ .on = 0 },
};
