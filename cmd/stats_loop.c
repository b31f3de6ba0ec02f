// SPDX-License-Identifier: BSD-2-Clause
// stats --interval: a report for each interval, until a signal or the end.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <time.h>

#include "base/util.h"
#include "stats_output.h"

static volatile sig_atomic_t stop;

static void on_signal(int sig)
{
	stop = 1;
}

/* Signals arrive only while waiting: no report is left half-way. */
static void signals_begin(sigset_t *ret_waiting)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action = { .sa_handler = on_signal };
	sigset_t blocked;

	sigemptyset(&blocked);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		sigaddset(&blocked, signals[i]);
		sigaction(signals[i], &action, NULL);
	}
	sigprocmask(SIG_BLOCK, &blocked, ret_waiting);
}

static void wait_until(uint64_t at_ns, const sigset_t *waiting)
{
	while (!stop) {
		struct timespec ts = timespec_of(ns_until(at_ns));

		if (ppoll(NULL, 0, &ts, waiting) == 0 && !ns_until(at_ns))
			return;
	}
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
	return next < end ? next : end;
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

	signals_begin(&waiting);
	/* With --reset the kernel keeps what intervals begin with. */
	code = o->reset ? 0 : reading_take(o, &readings[0], &err);
	start = tick = o->reset || code ? clock_ns(CLOCK_MONOTONIC) : readings[0].mono_ns;
	while (!code && !last && !run.held) {
		tick = next_tick(o, start, tick);
		wait_until(tick, &waiting);
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
