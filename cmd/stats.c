// SPDX-License-Identifier: BSD-2-Clause
// funcsnoop stats: the statistics that the kernel keeps.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/util.h"
#include "cli/cmd.h"
#include "group/keys.h"
#include "group/stacks.h"
#include "internal.h"
#include "show/stats.h"
#include "show/text.h"

/* --- readings: groups, their statistics and their overhead ---------------------------------- */

/* True if the command makes consecutive readings without a reset between them. */
static bool stats_has_intervals(const struct stats_options *o)
{
	return (o->interval_ns || o->duration_ns || o->watch) && !o->reset;
}

static bool shows_cost(const struct stats_options *o)
{
	if (o->save)
		return true;
	if (o->format->flags & FORMAT_JSON)
		return !(o->view->flags & VIEW_DIFF);
	return o->format->flags & FORMAT_READERS && o->view->flags & VIEW_COST;
}

static void read_costs(const struct stats_options *o, struct reading *now)
{
	bool intervals = stats_has_intervals(o);

	if (shows_cost(o) && (!o->past || intervals))
		cost_read(now->groups.group, now->groups.cnt,
			intervals ? COST_INTERVAL : COST_SINCE_RESET, now->spent);
}

/* Opens the groups and reads their overhead. Groups that are reset are read one by one later. */
static int reading_open(const struct stats_options *o, struct reading *now, struct err *err)
{
	int code;

	code = groups_open(o->g, &o->names,
		GROUPS_REST | GROUPS_BRIEF | (o->reset ? GROUPS_CHANGE : GROUPS_READ) |
			(o->shared ? GROUPS_SHARED : 0),
		&now->groups, err);
	if (code)
		return code;
	now->group = xcalloc(now->groups.cnt + 1, sizeof(*now->group));
	now->spent = xcalloc(now->groups.cnt + 1, sizeof(*now->spent));
	now->time_ns = clock_ns(CLOCK_REALTIME);
	now->mono_ns = clock_ns(CLOCK_MONOTONIC);
	read_costs(o, now);
	return 0;
}

/* Adds the slow calls of group @i with --slow. */
static int reading_slow(
	const struct stats_options *o, struct reading *now, size_t i, struct err *err)
{
	struct reading_group *rg = &now->group[i];

	if (!o->slow)
		return 0;
	return stats_slow_calls(now->groups.group[i], &rg->slow, &rg->slow_cnt, err);
}

/* Group @i was there when others were begun to be read, and is not any more. */
static void forget(struct reading *now, size_t i)
{
	size_t left = now->groups.cnt - i;

	stats_free(now->group[i].owned);
	free(now->group[i].slow);
	memset(&now->group[i], 0, sizeof(now->group[i]));
	memmove(&now->spent[i], &now->spent[i + 1], left * sizeof(*now->spent));
}

int reading_take(const struct stats_options *o, struct reading *now, struct err *err)
{
	int code;

	code = reading_open(o, now, err);
	for (size_t i = 0; !code && i < now->groups.cnt;) {
		struct reading_group *rg = &now->group[i];

		code = stats_read(
			&now->groups.fs, now->groups.group[i], o->tree, o->choice.lines, &rg->owned, err);
		rg->s = rg->owned;
		if (!code)
			code = reading_slow(o, now, i, err);
		group_open_keys(now->groups.group[i]);
		if (groups_pass(&now->groups, i, code)) {
			if (code && code != -ENOMEM && !now->groups.named) {
				groups_leave(&now->groups, i, err);
				forget(now, i);
				code = 0;
			} else {
				i++;
			}
			continue;
		}
		forget(now, i);
		code = 0;
	}
	if (!code && !now->groups.cnt && now->groups.left_cnt && !o->shared) {
		*err = now->groups.left[0].why;
		code = err->code;
	}
	return code;
}

void reading_done(struct reading *r)
{
	for (size_t i = 0; r->group && i < r->groups.cnt; i++) {
		stats_free(r->group[i].owned);
		free(r->group[i].slow);
	}
	free(r->group);
	free(r->spent);
	groups_done(&r->groups);
}

/* --- the report ----------------------------------------------------------------------------- */

/* The same group's place in an earlier reading; -1 when it is new or was reset since. */
static ssize_t earlier(const struct reading *before, const struct stats *s)
{
	for (size_t i = 0; before && i < before->groups.cnt; i++) {
		const struct stats *was = before->group[i].s;

		if (was && was->attached_ns == s->attached_ns &&
			was->since_ns == s->since_ns && was->func_cnt == s->func_cnt &&
			!strcmp(group_info(was->group).name, group_info(s->group).name))
			return (ssize_t)i;
	}
	return -1;
}

/* Slow calls that the earlier reading did not have. */
static void add_slow(struct report_group *rg, const struct reading_group *now,
	const struct reading_group *was)
{
	size_t skip = 0;

	if (was && was->slow_cnt)
		while (skip < now->slow_cnt &&
			now->slow[skip].seq <= was->slow[was->slow_cnt - 1].seq)
			skip++;
	rg->slow = now->slow ? now->slow + skip : NULL;
	rg->slow_cnt = now->slow_cnt - skip;
}

/* Returns the time that the group's numbers cover, in ns. */
static uint64_t elapsed(const struct stats *now, const struct stats *was)
{
	if (was)
		return now->read_mono_ns - was->read_mono_ns;
	return now->read_ns > now->since_ns ? now->read_ns - now->since_ns : 0;
}

/* True if the rows are those of stacks, and not of functions. */
static bool shows_stacks(const struct stats_options *o)
{
	return o->view->flags & VIEW_STACKS && !(o->view->flags & VIEW_DIFF) &&
		!(o->format->flags & (FORMAT_JSON | FORMAT_STACKS));
}

static int add_group(const struct stats_options *o, const struct reading *reading,
	size_t i, const struct reading *before, struct report_group *rg)
{
	const struct reading_group *now = &reading->group[i], *was;
	struct stats_choice choice = o->choice;
	ssize_t k = earlier(before, now->s);
	int code;

	was = k < 0 ? NULL : &before->group[k];
	rg->s = rg->whole = now->s;
	if (was && was->owned)
		stats_complete_stacks(was->owned, now->s);
	if (before) {
		rg->owned = stats_delta(now->s, was ? was->s : NULL, before->time_ns);
		rg->s = rg->owned;
	}
	rg->elapsed_ns = elapsed(now->s, was ? was->s : NULL);
	code = group_keys_read(now->s->group, &rg->keys, NULL);
	if (code)
		return code;
	/* Numbers of stacks that came since rows were read are in none of these. */
	if (now->s->keys_known && stacks_read(now->s->group, &rg->stacks, NULL))
		rg->stacks = NULL;
	if (rg->stacks && o->choice.lines)
		stacks_want_lines(rg->stacks);
	rg->keys.stacks = rg->stacks;
	rg->no_kernel = o->choice.no_kernel;
	rg->sleeps = o->view->flags & VIEW_SLEEPS;
	rg->cost = was ? cost_between(&before->spent[k], &reading->spent[i])
		       : cost_since_reset(&reading->spent[i]);
	add_slow(rg, now, was);
	rg->tree = o->tree ? &o->choice : NULL;
	if (o->before || o->check_cnt) {
		code = stats_snapshot(rg, &rg->after);
		if (code)
			return code;
	}
	/* By key, .top is of each function's rows, in trees of nodes; in metrics it is of series. */
	if (choice.by_cnt || shows_stacks(o) ||
		(o->format->flags & FORMAT_METRICS && o->view->flags & (VIEW_PROCESSES | VIEW_CGROUPS)))
		choice.top = 0;
	report_choose(rg, &choice, o->view->flags & VIEW_FRAME);
	return 0;
}

/* Stack formats and views need a group with stacks, readable only by its owner. */
static int check_stacks(const struct stats_options *o, const struct report *r, struct err *err)
{
	bool hidden = false;

	if (!(o->format->flags & FORMAT_STACKS) && !(o->view->flags & VIEW_STACKS))
		return 0;
	for (size_t i = 0; i < r->cnt; i++) {
		if (r->group[i].stacks)
			return 0;
		hidden |= r->group[i].keys.key_cnt && !r->group[i].s->keys_known;
	}
	if (hidden || !r->cnt)
		return hidden ? err_set(err, -EACCES, "stacks are for the group's owner only") : 0;
	err_set(err, -ERR_USAGE, "no group has stacks");
	return err_hint(err, "attach the group again with --replace --by stack");
}

/* The functions of samples with stacks are those of the stacks: a flat profile. */
static bool is_profile(const struct stats_options *o, const struct report *r)
{
	if (o->view != view_find("function") || !(o->format->flags & FORMAT_READERS) ||
		!r->cnt)
		return false;
	for (size_t i = 0; i < r->cnt; i++)
		for (size_t k = 0; k < r->group[i].s->func_cnt; k++)
			if (!r->group[i].stacks ||
				!group_func(r->group[i].s->group, r->group[i].s->funcs[k].fn).is_sample)
				return false;
	return true;
}

int report_make(const struct stats_options *o, const struct reading *now,
	const struct reading *before, struct report *ret_report, struct err *err)
{
	struct report *r = ret_report;
	int code = 0;

	*r = (struct report) {
		.g = o->g,
		.choice = &o->choice,
		.view = o->view,
		.timestamps = o->timestamps || (before && o->interval_ns),
		.first = true,
		.plain = o->output != NULL,
		.of_command = o->of_command,
		.past = o->past && !stats_has_intervals(o),
		.time_ns = now->time_ns,
		.interval_ns = before ? now->mono_ns - before->mono_ns : 0,
		.left_cnt = now->groups.left_cnt,
		.failed_cnt = now->groups.failed_cnt,
	};
	r->group = xcalloc(now->groups.cnt + 1, sizeof(*r->group));
	for (; !code && r->cnt < now->groups.cnt; r->cnt++) {
		struct report_group *rg = &r->group[r->cnt];

		code = add_group(o, now, r->cnt, before, rg);
		if (now->groups.crowded)
			group_close_maps(now->groups.group[r->cnt]);
		if (code || !o->before)
			continue;
		rg->before = saved_group_find(
			o->before, group_info(rg->s->group).name, now->groups.cnt == 1);
		diff_make(rg, rg->before, &rg->after->groups[0], &o->choice);
	}
	if (code)
		return err_sys(err, code, "cannot show statistics");
	code = check_stacks(o, r, err);
	if (!code && is_profile(o, r))
		r->view = view_find("flat");
	return code ? code : report_by(r, err);
}

void report_done(struct report *r)
{
	for (size_t i = 0; i < r->cnt; i++)
		report_group_done(&r->group[i]);
	free(r->group);
}

/* --- delivering ----------------------------------------------------------------------------- */

static int put_out(const char *text, size_t size, struct err *err)
{
	fwrite(text, 1, size, stdout);
	if (fflush(stdout) || ferror(stdout))
		return err_sys(err, -errno, "cannot write statistics");
	return 0;
}

static int render(const struct stats_format *format, const struct report *r, char **ret_text,
	size_t *ret_size)
{
	FILE *f = open_memstream(ret_text, ret_size);
	int code = f ? format->print(r, f) : -errno;

	if (f && fclose(f) && !code)
		code = -errno;
	return code;
}

/* True if @size bytes can be written without waiting for the reader. */
static bool stdout_has_room(size_t size)
{
	struct stat st;
	int pending;

	if (fstat(STDOUT_FILENO, &st))
		return true;
	if (S_ISFIFO(st.st_mode))
		return !ioctl(STDOUT_FILENO, FIONREAD, &pending) && !pending &&
			(long)size <= fcntl(STDOUT_FILENO, F_GETPIPE_SZ);
	return S_ISREG(st.st_mode) || (S_ISCHR(st.st_mode) && !isatty(STDOUT_FILENO));
}

/*
 * The lock of all groups is held until the reset, so a slow reader (a pager) gets its text after
 * that. Text that can be written at once is written first, so that a full disk resets nothing.
 */
static int to_stdout_of_reset(struct stats_run *run, const struct report *r, struct err *err)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	int code = render(run->o->format, r, &text, &size);

	if (code)
		return err_sys(err, code, "cannot show statistics");
	if (stdout_has_room(size))
		return put_out(text, size, err);
	run->late = TAKE_PTR(text);
	run->late_size = size;
	return 0;
}

static int to_stdout(struct stats_run *run, const struct report *r, struct err *err)
{
	const struct stats_options *o = run->o;
	int code;

	if (!r->cnt && o->format->flags & FORMAT_READERS) {
		cmd_note(r->g, "nothing is attached");
		return 0;
	}
	if (o->reset)
		return to_stdout_of_reset(run, r, err);
	code = o->format->print(r, stdout);
	return code ? err_sys(err, code, "cannot show statistics") : put_out("", 0, err);
}

/* Collectors of other users read numbers; arguments are for the owner's eyes. */
static mode_t file_mode(const struct stats_options *o, const struct stats_format *format,
	const struct report *r)
{
	bool rows = format->flags & (FORMAT_JSON | FORMAT_STACKS) || r->choice->by_cnt ||
		r->view->flags & VIEW_STACKS;

	for (size_t i = 0; rows && i < r->cnt; i++)
		if (r->group[i].keys.key_cnt && r->group[i].s->keys_known)
			return 0600;
	return o->slow ? 0600 : 0644;
}

static int to_file(const struct stats_options *o, const struct stats_format *format,
	const struct report *r, const char *path, struct err *err)
{
	_cleanup_free_ char *buf = NULL;
	struct globals g = *r->g;
	struct report plain = *r;
	size_t size = 0;
	int code;

	if (g.color == COLOR_AUTO)
		g.color = COLOR_NEVER;
	plain.g = &g;
	code = render(format, &plain, &buf, &size);
	if (!code)
		code = file_replace(path, file_mode(o, format, r), buf, size);
	if (code)
		return err_sys(err, code, "cannot write '%s'", path);
	/* On a terminal nothing else says so; scripts and intervals need no note. */
	if (isatty(STDERR_FILENO) && !o->interval_ns)
		cmd_note(&g, "wrote %s", path);
	return 0;
}

/* Saves the complete document, independently of the view. */
static int save(const struct stats_options *o, const struct reading *now, struct err *err)
{
	_cleanup_report_ struct report all = {};
	struct stats_options whole = *o;
	struct globals g = *o->g;
	int code;

	g.pretty = false;
	whole.g = &g;
	whole.view = view_find("function");
	whole.choice = (struct stats_choice) { .sort = SORT_BY_NAME, .lines = o->choice.lines };
	whole.before = NULL;
	whole.check_cnt = 0;
	code = report_make(&whole, now, NULL, &all, err);
	return code ? code : to_file(o, stats_format_default(true), &all, o->save, err);
}

static int deliver(struct stats_run *run, const struct reading *now,
	const struct reading *before, struct err *err)
{
	const struct stats_options *o = run->o;
	_cleanup_report_ struct report r = {};
	int code;

	code = report_make(
		o, now, o->reset || o->format->flags & FORMAT_CUMULATIVE ? NULL : before, &r, err);
	if (code)
		return code;
	code = check_keys_known(&r, o->checks, o->check_cnt, err);
	if (code)
		return code;
	r.first = !run->more || o->output;
	run->more = true;
	code = o->output ? to_file(o, o->format, &r, o->output, err) : to_stdout(run, &r, err);
	if (!code && o->save)
		code = save(o, now, err);
	for (size_t i = 0; !code && o->check_cnt && i < r.cnt; i++)
		run->held |= check_group(o->g, o->checks, o->check_cnt, r.group[i].before,
			&r.group[i].after->groups[0]);
	return code;
}

struct nested {
	struct stats_run *run;
	struct reading *now;
	const struct reading *before;
	struct resets *resets;
	size_t at; /* the group whose turn it is */
	struct err *err;
};

static int reset_next(struct nested *n);

/* Between reading one group and resetting it the others' turn comes. */
static int got_one(const struct stats *s, void *arg)
{
	struct nested *n = arg;
	int code;

	n->now->group[n->at].s = s;
	code = reading_slow(n->run->o, n->now, n->at, n->err);
	if (code)
		return code;
	n->at++;
	return reset_next(n);
}

static int reset_next(struct nested *n)
{
	if (n->at == n->now->groups.cnt)
		return deliver(n->run, n->now, n->before, n->err);
	return stats_reset(n->resets, n->at, got_one, n, n->err);
}

/* One group that can't be read does not hide the others. */
static void tell_left(struct stats_run *run, const struct reading *now)
{
	if (!run->told)
		groups_tell_left(run->o->g, &now->groups);
	run->told |= now->groups.left_cnt;
	run->left |= now->groups.failed_cnt;
}

/*
 * Reads all groups into @now and delivers a report of the interval since @before (NULL: since the
 * reset). With --reset, all output is delivered before any group is reset. The exception is a
 * standard output that could block and keep the groups locked: it is written afterwards.
 */
static int stats_report(struct stats_run *run, struct reading *now, const struct reading *before,
	struct err *err)
{
	_cleanup_resets_ struct resets *resets = NULL;
	struct nested n = { run, now, before, NULL, 0, err };
	int code;

	code = run->o->reset ? reading_open(run->o, now, err)
			     : reading_take(run->o, now, err);
	if (code)
		return code;
	tell_left(run, now);
	if (!run->o->reset)
		return deliver(run, now, before, err);
	n.resets = resets = resets_new(now->groups.group, now->groups.cnt);
	code = reset_next(&n);
	groups_unlock(&now->groups);
	if (!code && run->late)
		code = put_out(run->late, run->late_size, err);
	free(TAKE_PTR(run->late));
	return code;
}

int stats_render(const struct stats_options *o, char **ret_text, size_t *ret_size,
	bool *ret_failed, struct err *err)
{
	_cleanup_reading_ struct reading now = READING_NONE;
	_cleanup_report_ struct report r = {};
	int code = reading_take(o, &now, err);

	if (code)
		return code;
	groups_tell_left(o->g, &now.groups);
	*ret_failed = now.groups.failed_cnt;
	code = report_make(o, &now, NULL, &r, err);
	if (code)
		return code;
	code = render(o->format, &r, ret_text, ret_size);
	return code ? err_sys(err, code, "cannot show statistics") : 0;
}

int stats_status(const struct stats_run *run)
{
	return run->held ? EXIT_CONDITION : run->left ? EXIT_FAILED : EXIT_DONE;
}

/* --- a report for each interval, until a signal or the end ---------------------------------- */

#define TICK_NS 20000000ULL

static volatile sig_atomic_t stop;

static void on_signal(int sig)
{
	stop = 1;
}

/* Signals arrive only while waiting: no report is left half-way. */
static void signals_begin(const struct stats_options *o, sigset_t *ret_waiting)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action = { .sa_handler = on_signal };
	sigset_t blocked;

	sigemptyset(&blocked);
	for (size_t i = 0; !o->until_fd && i < ARRAY_SIZE(signals); i++) {
		sigaddset(&blocked, signals[i]);
		sigaction(signals[i], &action, NULL);
	}
	sigprocmask(SIG_BLOCK, &blocked, ret_waiting);
}

static void wait_until(const struct stats_options *o, uint64_t at_ns, const sigset_t *waiting)
{
	struct pollfd until = { .fd = o->until_fd, .events = POLLIN };

	while (!stop) {
		uint64_t left = ns_until(at_ns);
		struct timespec ts = timespec_of(o->tick && left > TICK_NS ? TICK_NS : left);
		int n = ppoll(&until, o->until_fd > 0, &ts, waiting);

		if (o->tick)
			o->tick(o->ready_arg);

		stop |= n > 0;
		if (!n && !ns_until(at_ns))
			return;
	}
}

/*
 * Windows of several nodes must coincide: intervals of whole seconds start at multiples of the
 * interval, independently of the clock used to wait.
 */
static bool is_aligned(const struct stats_options *o)
{
	return o->interval_ns && o->interval_ns % 1000000000 == 0 && !o->until_fd;
}

/* The multiple of @step nearest to @at_ns, by CLOCK_REALTIME. */
static uint64_t align(uint64_t at_ns, uint64_t step)
{
	uint64_t off = (clock_ns(CLOCK_REALTIME) + at_ns - clock_ns(CLOCK_MONOTONIC)) % step;

	return off > step / 2 ? at_ns + step - off : at_ns - off;
}

/* The next multiple of the interval that is still to come, or the end. */
static uint64_t next_tick(const struct stats_options *o, uint64_t start, uint64_t last)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC),
		 end = o->duration_ns ? start + o->duration_ns : UINT64_MAX;
	uint64_t step = o->interval_ns ? o->interval_ns : o->duration_ns,
		 next = last + step;

	if (next <= now) /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): one of them is given */
		next = start + ((now - start) / step + 1) * step;
	if (is_aligned(o))
		next = align(next, step);
	/* Clocks differ slightly, so a short remainder is merged into the last interval. */
	return next < end && end - next > step / 8 ? next : end;
}

int stats_loop(const struct stats_options *o)
{
	struct reading readings[2] = { READING_NONE, READING_NONE };
	struct stats_run run = { .o = o };
	uint64_t start, tick;
	struct err err = {};
	sigset_t waiting;
	bool last = false;
	int code, at = 1;

	signals_begin(o, &waiting);
	if (is_aligned(o))
		wait_until(o, align(clock_ns(CLOCK_MONOTONIC) + (o->interval_ns + 1) / 2,
				      o->interval_ns), &waiting);
	/* With --reset the kernel keeps what intervals begin with. */
	code = o->reset ? 0 : reading_take(o, &readings[0], &err);
	start = tick = o->reset || code ? clock_ns(CLOCK_MONOTONIC) : readings[0].mono_ns;
	if (!code && o->ready)
		o->ready(o->ready_arg);
	while (!code && !last && !run.held) {
		tick = next_tick(o, start, tick);
		wait_until(o, tick, &waiting);
		last = stop || (o->duration_ns && tick >= start + o->duration_ns);
		code = stats_report(
			&run, &readings[at], o->reset ? NULL : &readings[!at], &err);
		/* Nor may the lock of a reset be held until the next. */
		at = o->reset ? at : !at;
		reading_done(&readings[at]);
		readings[at] = (struct reading)READING_NONE;
	}
	reading_done(&readings[!at]);
	if (code)
		return cmd_fail(o->g, &err);
	return stats_status(&run);
}

/* --- the command ----------------------------------------------------------------------------- */

static int run_once(const struct stats_options *o)
{
	_cleanup_reading_ struct reading now = READING_NONE;
	struct stats_run run = { .o = o };
	struct err err = {};

	if (stats_report(&run, &now, NULL, &err))
		return cmd_fail(o->g, &err);
	return stats_status(&run);
}

/* Histograms one after the other become one picture, where that can be drawn. */
static bool draws_heat(const struct stats_options *o)
{
	return o->view == view_find("hist") && o->interval_ns && !o->output && !o->reset &&
		!o->check_cnt && !o->until_fd && o->format->flags & FORMAT_READERS && screen_can();
}

/* GPU activity is shown by kernel, and waits for locks by lock and their other keys. */
static void choose_view(struct stats_options *o)
{
	_cleanup_groups_ struct groups groups = GROUPS_NONE;
	char by[FSN_KEYS * (KEY_NAME_LEN + 1)];
	struct group_info info;
	struct err err = {};
	bool found = false;
	const char *first;
	size_t len = 0;

	if (o->view_set || o->watch || o->names.cnt != 1 || !(o->format->flags & FORMAT_READERS) ||
		groups_open(o->g, &o->names, GROUPS_REST | GROUPS_BRIEF, &groups, &err) || groups.cnt != 1)
		return;
	info = group_info(groups.group[0]);
	first = info.gpu ? "kernel" : info.fn_cnt == 1 ? "lock" : "";
	for (size_t i = 0; i < FSN_KEYS && info.key[i]; i++) {
		bool is_first = !strcmp(info.key[i], first) ||
			(info.gpu && !strcmp(info.key[i], FSN_GPU_RANGE));

		found |= is_first;
		if (is_first || !info.gpu)
			len += (size_t)snprintf(by + len, sizeof(by) - len, "%s%.*s", len ? "," : "",
				KEY_NAME_LEN - 1, info.key[i]);
	}
	if (found)
		(void)!read_by(o, NULL, by, &err);
}

int stats_options_run(struct stats_options *o)
{
	struct err err = {};

	choose_view(o);

	if (o->diff_path && !o->before && saved_read(o->diff_path, &o->before, &err))
		return cmd_fail(o->g, &err);
	if (o->watch || draws_heat(o))
		return stats_watch(o);
	return o->interval_ns || o->duration_ns ? stats_loop(o) : run_once(o);
}

static int run(struct globals *g, int argc, char **argv)
{
	_cleanup_options_ struct options o;

	cmd_parse(g, &cmd_stats, argc, argv, &o);
	o.stats.names = o.words;
	o.stats.duration_ns = o.duration_ns;
	o.stats.output = o.output;
	return stats_options_finish(&o.stats) ? stats_options_run(&o.stats) : EXIT_USAGE;
}

const struct command cmd_stats = { "stats", "[GROUP...]", "statistics kept by the kernel", run,
	ON_STATS, "[GROUP...]",
	"Show statistics of groups; without GROUP, of all.\v"
	"Example: funcsnoop stats --diff before.json --fail-if 'p99>25%'" };
