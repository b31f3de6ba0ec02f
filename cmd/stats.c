// SPDX-License-Identifier: BSD-2-Clause
// funcsnoop stats: the statistics that the kernel keeps.
#include <ctype.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <time.h>

#include "cli/cmd.h"
#include "internal.h"
#include "show/text.h"

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

/* For GPU activity, show kernels first. */
static void choose_view(struct stats_options *o)
{
	_cleanup_groups_ struct groups groups = GROUPS_NONE;
	struct err err = {};

	if (o->view_set || o->watch || o->names.cnt != 1 || !(o->format->flags & FORMAT_READERS) ||
		groups_open(o->g, &o->names, GROUPS_REST | GROUPS_BRIEF, &groups, &err) || groups.cnt != 1 ||
		!group_info(groups.group[0]).gpu)
		return;
	for (size_t i = 0; i < FSN_KEYS && group_info(groups.group[0]).key[i]; i++)
		if (!strcmp(group_info(groups.group[0]).key[i], "kernel")) {
			o->view = view_find("key");
			o->choice.by[0] = "kernel";
			o->choice.by_cnt = 1;
		}
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
