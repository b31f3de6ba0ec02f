// SPDX-License-Identifier: BSD-2-Clause
// funcsnoop stream: calls as they happen.
#include <poll.h>
#include <search.h>
#include <signal.h>
#include <sys/time.h>
#include <syslog.h>

#include "base/util.h"
#include "cli/cmd.h"
#include "group/stacks.h"
#include "internal.h"
#include "show/text.h"

/* How often the buffer is read: latency is at most this, STREAM_SETTLE_NS and the writing. */
#define TICK_NS      30000000ULL
#define TICK_FULL_NS 2000000ULL
#define FULL_PERCENT 20
#define LOOK_NS      500000000ULL /* between looks for the groups and lines of progress */
#define FLUSH_BYTES  (256U << 10)
#define COUNTERS_NS  100000000ULL /* between readings of counters, or this times what one takes: */
#define COUNTERS_TIMES 20

#define ENOUGH 1 /* returned by a stream_fn after the requested number of calls */

/* A second signal does not wait for the reader of the output. */
static volatile sig_atomic_t signals_seen;

struct run {
	const struct stream_options *o;
	struct groups groups;
	struct streamed {
		struct types *types;
		struct group_keys keys;
		struct stacks *stacks; /* or NULL */
		bool gpu; /* all functions are GPU activity */
		struct stats *names; /* whose rows have the names of kernels that GPUs ran; or NULL */
		uint64_t names_ns;
		struct stats *was; /* the last reading for counters; or NULL */
		struct counter *counters; /* FIGURE_CNT for each function */
		struct noise {
			struct call_noise noise;
			uint64_t until_ns; /* of calls that end before */
		} *noise; /* of each function */
	} *of; /* of each group */
	void *firsts; /* tree of struct first */
	struct stream *stream;
	struct sink sink;
	struct stream_page page;
	struct out alert;
	uint64_t ahead_ns; /* of CLOCK_REALTIME before CLOCK_MONOTONIC */
	uint64_t calls, start_ns, looked_ns, count_ns; /* .count_ns: when counters are read next */
	struct err err; /* of the sink, inside a stream_fn */
	bool progress, progress_shown;
};

/* --- signals ---------------------------------------------------------------------------------- */

/* A write that waits is interrupted, and so is one that begins just now: by the timer. */
static void on_signal(int sig)
{
	const struct itimerval soon = { { 0, 200000 }, { 0, 200000 } };

	if (sig == SIGALRM)
		return;
	signals_seen++;
	setitimer(ITIMER_REAL, &soon, NULL);
}

static void signals_begin(const struct stream_options *o)
{
	static const int caught[] = { SIGINT, SIGTERM, SIGALRM };
	struct sigaction action = { .sa_handler = on_signal }, before;

	/* write(2) reports a closed pipe. */
	signal(SIGPIPE, SIG_IGN);
	if (o->until_fd)
		return;
	/* As nohup(1) has it. */
	if (!sigaction(SIGHUP, NULL, &before) && before.sa_handler != SIG_IGN)
		sigaction(SIGHUP, &action, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(caught); i++)
		sigaction(caught[i], &action, NULL);
}

static void signals_end(void)
{
	const struct itimerval never = {};

	setitimer(ITIMER_REAL, &never, NULL);
}

/* After the first signal, abandons writes to a pipe that has not been read for a while. */
static bool give_up(void)
{
	static uint64_t since;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	if (!signals_seen)
		return false;
	if (!since)
		since = now;
	return signals_seen > 1 || now - since > 1000000000ULL;
}

static void wait_ns(uint64_t ns)
{
	/* A signal between the test and the sleep is seen one tick later. */
	if (!signals_seen)
		sleep_ns(ns);
}

/* --- one record ------------------------------------------------------------------------------- */

/* Thread names are escaped, because they come from the traced process. */
static void alert(struct run *r, const struct shown_call *c)
{
	if (!r->o->alert || !(c->call->flags & FSN_CALL_SLOW))
		return;
	r->alert.len = 0;
	out_escaped(&r->alert, c->call->comm, strlen(c->call->comm));
	out_char(&r->alert, '[');
	out_u64(&r->alert, c->call->pid);
	out_char(&r->alert, '/');
	out_u64(&r->alert, c->call->tid);
	out_str(&r->alert, "] ");
	stream_line(&r->alert, c, CALL_WHOLE);
	out_char(&r->alert, '\0');
	syslog(LOG_WARNING, "%s", r->alert.buf);
}

static bool is_enough(const struct run *r)
{
	return r->o->max_calls && r->calls >= r->o->max_calls;
}

static void write_event(struct run *r, const struct shown_call *c, enum call_form form)
{
	if (is_enough(r))
		return;
	r->o->format->call(&r->page, c, form);
	r->calls++;
}

#define NAMES_NS 100000000ULL

/*
 * Returns statistics that have the kernel name of @rec. Rows are added while kernels are launched,
 * so they are read again if the row is missing, at most every NAMES_NS.
 */
static const struct stats *names_of(struct run *r, const struct stream_record *rec)
{
	const struct group *g = r->groups.group[rec->group];
	struct streamed *of = &r->of[rec->group];
	const struct stats_row *row;
	uint64_t now;

	if (!of->gpu || !rec->key)
		return NULL;
	now = clock_ns(CLOCK_MONOTONIC);
	row = of->names
		? stats_row_find(of->names, rec->call->fn, (pid_t)rec->call->pid, rec->key)
		: NULL;
	if ((row && row->kernel) || (of->names_ns && now - of->names_ns < NAMES_NS))
		return of->names;
	stats_free(of->names);
	of->names = NULL;
	of->names_ns = now;
	(void)!stats_read_names(g, &of->names, NULL);
	return of->names;
}

#define NOISE_NS 100000000ULL

/* Returns the error of the durations of the function of @rec, at most NOISE_NS older than @rec. */
static const struct call_noise *noise_of(struct run *r, const struct stream_record *rec)
{
	struct noise *noise = &r->of[rec->group].noise[rec->call->fn];
	uint64_t at = rec->call->start + rec->call->duration;

	if (at >= noise->until_ns) {
		noise->until_ns = clock_ns(CLOCK_MONOTONIC) + NOISE_NS;
		call_noise_read(r->groups.group[rec->group], rec->call->fn, &noise->noise);
	}
	return &noise->noise;
}

/* When the first probe of a process that needs a page was over. */
struct first {
	uint32_t pid;
	uint64_t until_ns;
};

static int compare_firsts(const void *a, const void *b)
{
	const struct first *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

/* True if the kernel may have mapped that page during the call: calls come as they return. */
static bool is_first(struct run *r, const struct stream_record *rec, bool sets_up)
{
	const struct call *call = rec->call;
	struct first *first, **at, key = { .pid = call->pid };

	at = tfind(&key, &r->firsts, compare_firsts);
	if (!at && !sets_up)
		return false;
	if (!at) {
		first = xcalloc(1, sizeof(*first));
		first->pid = call->pid;
		first->until_ns = call->start + call->duration + rec->late_ns;
		at = tsearch(first, &r->firsts, compare_firsts);
	}
	return !at || call->start < (*at)->until_ns;
}

static uint64_t call_noise(struct run *r, const struct stream_record *rec)
{
	const struct call_noise *noise = noise_of(r, rec);

	return call_noise_ns(noise, rec->late_ns, is_first(r, rec, noise->sets_up));
}

static void write_call(struct run *r, const struct stream_record *rec)
{
	struct shown_call c = call_of(r->groups.group[rec->group], r->of[rec->group].types,
		rec->call, rec->more, r->ahead_ns);

	c.keys = &r->of[rec->group].keys;
	c.key = rec->key;
	c.late_ns = rec->late_ns;
	c.on_gpu = r->of[rec->group].gpu;
	c.names = names_of(r, rec);
	if (rec->kind == STREAM_ENTRY) {
		write_event(r, &c, CALL_ENTRY);
		return;
	}
	c.noise_ns = call_noise(r, rec);
	if (r->o->exits)
		write_event(r, &c, CALL_EXIT);
	if (r->o->calls)
		write_event(r, &c, CALL_WHOLE);
	alert(r, &c);
}

static int on_record(const struct stream_record *rec, void *arg)
{
	struct run *r = arg;
	const struct stream_format *format = r->o->format;
	const char *group = group_name(r->groups.group[rec->group]);

	switch (rec->kind) {
	case STREAM_LOST:
		format->lost(&r->page, group, rec->count);
		return 0;
	case STREAM_GAP:
		format->gap(&r->page, group, rec->duration_ns,
			clock_ns(CLOCK_MONOTONIC) + r->ahead_ns);
		return 0;
	case STREAM_ENTRY:
	case STREAM_END:
		write_call(r, rec);
		break;
	}
	if (r->sink.out.len >= FLUSH_BYTES && sink_flush(&r->sink, &r->err))
		return r->err.code;
	return is_enough(r) ? ENOUGH : 0;
}

/* --- counters --------------------------------------------------------------------------------- */

/* Writes the metrics of a function that are different now. Rates are those since the last reading. */
static void write_counters(struct run *r, size_t group, const struct stats *now, uint32_t fn)
{
	const struct group *g = r->groups.group[group];
	struct streamed *of = &r->of[group];
	struct stats_func f = now->funcs[fn];
	struct figure_scope scope = {};
	enum figure_id ids[FIGURE_CNT];
	struct figures figures_now;
	size_t cnt = figure_list(USE_TRACE, ids);

	if (of->was && of->was->since_ns == now->since_ns) {
		scope.elapsed_ns = now->read_mono_ns - of->was->read_mono_ns;
		f.n.calls -= of->was->funcs[fn].n.calls;
	} else if (of->was && now->read_ns > now->since_ns) {
		scope.elapsed_ns = now->read_ns - now->since_ns;
	}
	figures_of(&f, &scope, figure_mask(USE_TRACE), &figures_now);
	for (size_t i = 0; i < cnt; i++) {
		struct counter *c = &of->counters[fn * FIGURE_CNT + ids[i]];
		uint64_t value = figures_now.value[ids[i]].n;

		if (!figure_known(&figures_now, ids[i]) || c->value == value)
			continue;
		c->value = value;
		r->o->format->counter(&r->page, c, group_info(g).name, group_func_name(g, fn), ids[i],
			now->read_mono_ns - (figure_is_real(ids[i]) ? scope.elapsed_ns : 0));
	}
}

/* A group that was detached keeps its last values. */
static void count_group(struct run *r, size_t group)
{
	const struct group *g = r->groups.group[group];
	struct streamed *of = &r->of[group];
	struct stats *now;

	if (stats_read_counts(&r->groups.fs, g, &now, NULL))
		return;
	if (!of->counters)
		of->counters = xcalloc(now->func_cnt * FIGURE_CNT, sizeof(*of->counters));
	for (uint32_t fn = 0; fn < now->func_cnt; fn++)
		if (stream_selects(&r->o->filter, g, fn))
			write_counters(r, group, now, fn);
	stats_free(of->was);
	of->was = now;
}

static void count(struct run *r)
{
	uint64_t start = clock_ns(CLOCK_MONOTONIC), took;

	if (!r->o->format->counter)
		return;
	for (size_t i = 0; i < r->groups.cnt; i++)
		count_group(r, i);
	took = clock_ns(CLOCK_MONOTONIC) - start;
	r->count_ns = start + (took * COUNTERS_TIMES > COUNTERS_NS ? took * COUNTERS_TIMES : COUNTERS_NS);
}

/* --- progress --------------------------------------------------------------------------------- */

static void clear_progress(struct run *r)
{
	if (r->progress_shown)
		fputs("\r\033[K", stderr);
	r->progress_shown = false;
}

static void show_progress(struct run *r)
{
	double seconds = (clock_ns(CLOCK_MONOTONIC) - r->start_ns) / 1e9;
	char bytes[TEXT_NUM_LEN];

	if (!r->progress)
		return;
	fprintf(stderr, "\r\033[K%llu call%s, %.0f/s, %llu lost, %s written; Ctrl-C ends",
		(unsigned long long)r->calls, r->calls == 1 ? "" : "s",
		seconds > 0 ? r->calls / seconds : 0,
		(unsigned long long)stream_lost(r->stream), text_bytes(r->sink.bytes, bytes));
	fflush(stderr);
	r->progress_shown = true;
}

/* --- the loop --------------------------------------------------------------------------------- */

static bool is_time(const struct run *r)
{
	struct pollfd until = { .fd = r->o->until_fd, .events = POLLIN };

	if (r->o->until_fd && poll(&until, 1, 0) > 0)
		return true;
	return r->o->duration_ns &&
		clock_ns(CLOCK_MONOTONIC) - r->start_ns >= r->o->duration_ns;
}

static uint64_t next_wait(const struct run *r)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC), end = r->start_ns + r->o->duration_ns;
	uint64_t wait = stream_fill(r->stream) >= FULL_PERCENT ? TICK_FULL_NS : TICK_NS;

	if (r->o->duration_ns && end < now + wait)
		wait = end > now ? end - now : 0;
	return wait;
}

/* Whether the groups are still there; now and then. */
static bool is_over(struct run *r)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	if (now - r->looked_ns < LOOK_NS)
		return false;
	r->looked_ns = now;
	show_progress(r);
	if (!stream_is_over(r->stream))
		return false;
	clear_progress(r);
	cmd_note(r->o->g, "all groups were detached");
	return true;
}

/*
 * The wall clock's distance, as it is set and slewed. This process may have to wait between
 * two readings of clocks: what is known within less than a microsecond stays.
 */
static void look_at_clocks(struct run *r)
{
	uint64_t before, wall, after, ahead, off;

	for (int i = 0; i < 10; i++) {
		before = clock_ns(CLOCK_MONOTONIC);
		wall = clock_ns(CLOCK_REALTIME);
		after = clock_ns(CLOCK_MONOTONIC);
		ahead = wall - before - (after - before) / 2;
		off = ahead > r->ahead_ns ? ahead - r->ahead_ns : r->ahead_ns - ahead;
		if (off <= after - before + 1000)
			return;
		if (after - before < 1000)
			break;
	}
	r->ahead_ns = ahead;
}

static int read_some(struct run *r, struct err *err)
{
	int code;

	look_at_clocks(r);
	if (clock_ns(CLOCK_MONOTONIC) >= r->count_ns)
		count(r);
	code = stream_read(r->stream, on_record, r, err);
	if (code == r->err.code && code)
		*err = r->err;
	if (!code || code == ENOUGH)
		return sink_flush(&r->sink, err) ?: code;
	return code;
}

/* 0, or what went wrong; the stream's end is not that of the world: it is closed in order. */
static int loop(struct run *r, struct err *err)
{
	int code = 0;

	while (!code && !signals_seen && !is_time(r) && !is_over(r)) {
		wait_ns(next_wait(r));
		if (r->o->tick)
			r->o->tick(r->o->ready_arg);
		code = read_some(r, err);
	}
	count(r);
	if (code == ENOUGH)
		return stream_close(r->stream, NULL, NULL, err);
	if (code)
		return code;
	code = stream_close(r->stream, on_record, r, err);
	if (code == r->err.code && code)
		*err = r->err;
	return code == ENOUGH ? 0 : code;
}

/* --- beginning and end ------------------------------------------------------------------------ */

static int open_groups(struct run *r, struct err *err)
{
	const struct stream_options *o = r->o;
	int code;

	code = groups_open(o->g, &o->names, GROUPS_CHANGE | GROUPS_REST | GROUPS_BRIEF,
		&r->groups, err);
	if (code)
		return code;
	groups_tell_left(o->g, &r->groups);
	if (!r->groups.cnt) {
		err_set(err, -ENOENT, "nothing is attached");
		return err_hint(err, "'funcsnoop help attach' shows how to attach a group");
	}
	r->of = xcalloc(r->groups.cnt, sizeof(*r->of));
	for (size_t i = 0; !code && i < r->groups.cnt; i++) {
		struct group *g = r->groups.group[i];
		struct streamed *of = &r->of[i];

		code = types_read(g, &of->types, err);
		if (!code)
			code = group_keys_read(g, &of->keys, err);
		if (!code)
			code = stacks_read(g, &of->stacks, err);
		of->keys.stacks = of->stacks;
		of->gpu = group_info(g).gpu;
		of->noise = xcalloc(group_info(g).fn_cnt, sizeof(*of->noise));
		group_close_maps(g);
	}
	return code;
}

static bool is_only_counted(const struct group *g)
{
	return !group_info(g).events && group_info(g).exits == 1U << FSN_EXIT_NONE;
}

/* Calls of functions that are only counted are seen at their entries, unless a filter needs ends. */
static bool wants_entries(const struct run *r)
{
	const struct stream_filter *f = &r->o->filter;

	if (option_given("events") || r->o->format->calls_only || r->o->alert || f->slow ||
		f->failed || f->min_ns)
		return false;
	return r->groups.cnt && ALL_WHERE(r->groups.cnt, i, is_only_counted(r->groups.group[i]));
}

/* Why nothing may come, though calls are made. */
static void tell_of_silence(const struct run *r, bool entries)
{
	for (size_t i = 0; i < r->groups.cnt; i++) {
		const struct group *g = r->groups.group[i];

		if (!entries && is_only_counted(g))
			cmd_note(r->o->g,
				"functions of group '%s' are only counted: use --events entry "
				"for their calls",
				group_info(g).name);
		else if ((r->o->filter.slow || r->o->alert) && !group_has_slow(g))
			cmd_note(r->o->g,
				"no call of group '%s' is slow: 'funcsnoop set %s --slow DUR' "
				"sets the threshold",
				group_info(g).name, group_info(g).name);
	}
}

static int begin(struct run *r, struct err *err)
{
	const struct stream_options *o = r->o;
	size_t funcs;
	struct stream_filter filter = o->filter;
	int code;

	r->sink.trailer = o->format->trailer;
	r->sink.piece = o->format->piece;
	/* It may wait for a reader: not with the groups' lock held. */
	code = sink_open(o->output, &r->sink, err);
	if (!code)
		code = open_groups(r, err);
	filter.entries |= !code && wants_entries(r);
	if (!code)
		code = stream_open(&r->groups.fs, r->groups.group, r->groups.cnt, &filter,
			o->buffer_bytes, &r->stream, err);
	for (size_t i = 0; !code && i < r->groups.cnt; i++)
		group_open_keys(r->groups.group[i]);
	groups_unlock(&r->groups);
	if (!code)
		code = sink_begin(&r->sink, err);
	if (code)
		return code;
	r->sink.give_up = give_up;
	r->page.out = &r->sink.out;
	r->page.color = !o->output && text_color(o->g);
	r->progress = (o->output || !isatty(STDOUT_FILENO)) && isatty(STDERR_FILENO) &&
		!o->g->quiet;
	if (o->alert)
		openlog("funcsnoop", LOG_PID | LOG_NDELAY, LOG_DAEMON);
	if (o->format->begin)
		o->format->begin(&r->page);
	look_at_clocks(r);
	count(r);
	tell_of_silence(r, filter.entries);
	funcs = stream_func_cnt(r->stream);
	cmd_note(o->g, "watching %zu function%s of %zu group%s", funcs, funcs == 1 ? "" : "s",
		r->groups.cnt, r->groups.cnt == 1 ? "" : "s");
	r->start_ns = r->looked_ns = clock_ns(CLOCK_MONOTONIC);
	return sink_flush(&r->sink, err);
}

static void run_done(struct run *r)
{
	stream_free(r->stream);
	for (size_t i = 0; r->of && i < r->groups.cnt; i++) {
		types_free(r->of[i].types);
		group_keys_done(&r->of[i].keys);
		stacks_free(r->of[i].stacks);
		stats_free(r->of[i].names);
		stats_free(r->of[i].was);
		free(r->of[i].counters);
		free(r->of[i].noise);
	}
	free(r->of);
	tdestroy(r->firsts, free);
	stream_page_done(&r->page);
	out_done(&r->alert);
	sink_done(&r->sink);
	groups_done(&r->groups);
}

/* A closed pipe and an abandoned write are normal ends. */
static bool is_end(int code)
{
	return !code || code == -EPIPE || (code == -EINTR && signals_seen);
}

int stream_run(const struct stream_options *o)
{
	__cleanup(run_done) struct run r = {
		.o = o,
		.groups = GROUPS_NONE,
		.sink = SINK_NONE,
	};
	struct err err = {};
	uint64_t lost = 0;
	int code;

	signals_begin(o);
	code = begin(&r, &err);
	if (!code && o->ready)
		o->ready(o->ready_arg);
	if (!code)
		code = loop(&r, &err);
	if (!code)
		code = sink_end(&r.sink, &err);
	clear_progress(&r);
	if (r.stream)
		lost = stream_lost(r.stream);
	if (lost)
		cmd_note(o->g, "%llu call%s lost: use a larger --limit buffer=SIZE, filters, or --overhead none",
			(unsigned long long)lost, lost == 1 ? " was" : "s were");
	signals_end();
	return is_end(code) ? EXIT_DONE : cmd_fail(o->g, &err);
}

/* --- the command ---------------------------------------------------------------------------- */

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
	"Filters work in the kernel. Lost calls are counted, and reported.\n"
	"Examples:\n"
	"  funcsnoop stream cuda --only slow\n"
	"  funcsnoop stream cuda --only failed --json | jq .ret_name\n"
	"  funcsnoop stream nccl -p 1234 -f 'ncclAll*' -d 10\n"
	"  funcsnoop stream --format perfetto -o trace.pb   (open it in ui.perfetto.dev)" };
