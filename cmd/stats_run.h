/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading groups, making reports of them, and delivering those. */
#ifndef FUNCSNOOP_CMD_STATS_RUN_H
#define FUNCSNOOP_CMD_STATS_RUN_H

#include "cli/groups.h"
#include "show/stats_report.h"
#include "show/stats_view.h"

struct stats_options {
	struct globals *g;
	struct words names;
	struct stats_choice choice;
	const struct view *view;
	bool view_set, slow, reset, timestamps, watch;
	uint64_t interval_ns, duration_ns;
	const struct stats_format *format;
	const char *output, *save;
	const char *diff_path;
	struct saved *before; /* of diff_path */
	struct check *checks;
	size_t check_cnt;
	int until_fd; /* intervals end when it can be read, and not by signals; 0: none */
	void (*ready)(void *arg); /* told when the first interval has begun; or NULL */
	void *ready_arg;
};

/*
 * Reads a line of options into @o, which holds .g; names of groups stand in .names. False
 * when it makes no sense, which has been said: EXIT_USAGE. stats_options_run() then does
 * what they say and returns the status. End with stats_options_done() in any case.
 */
bool stats_options_parse(struct stats_options *o, int argc, char **argv);
int stats_options_run(struct stats_options *o);
void stats_options_done(struct stats_options *o);

/* One reading of all groups. Begin with READING_NONE, end with reading_done(). */
struct reading_group {
	const struct stats *s;
	struct stats *owned;     /* @s, when it is to be freed */
	struct fsn_slow *slow; /* with --slow */
	size_t slow_cnt;
};
struct reading {
	struct groups groups;
	struct reading_group *group; /* one for each of groups */
	struct cost_reading *spent;  /* by each of groups, for intervals */
	struct cost *cost;           /* of each now, without intervals */
	uint64_t time_ns, mono_ns;   /* when it began */
};
#define READING_NONE                  \
	{                             \
		.groups = GROUPS_NONE \
	}

int reading_take(const struct stats_options *o, struct reading *now, struct err *err);
void reading_done(struct reading *r);
#define _cleanup_reading_ __cleanup(reading_done)

/*
 * Makes a report of @now, which must outlive it: of what came since @before, or with NULL
 * of everything since the reset. End with report_done(), also after an error.
 */
int report_make(const struct stats_options *o, const struct reading *now,
	const struct reading *before, struct report *ret_report, struct err *err);
void report_done(struct report *r);
#define _cleanup_report_ __cleanup(report_done)

/* What lasts from one report to the next. */
struct stats_run {
	const struct stats_options *o;
	bool more; /* something has been printed */
	bool held; /* a condition has */
	char *late; /* what is printed when nothing is locked any more, or NULL */
	size_t late_size;
	bool left; /* groups could not be read */
	bool told; /* which groups are left out */
};

/*
 * Reads all groups into @now and delivers a report of what came since @before (NULL: of
 * everything). With --reset all is delivered before any group is reset, but for a standard
 * output that may keep the groups locked: that gets it afterwards.
 */
int stats_report(struct stats_run *run, struct reading *now, const struct reading *before,
	struct err *err);

/* How a run ends in which nothing failed as a whole. */
int stats_status(const struct stats_run *run);

/* stats --interval, --duration: an exit status. */
int stats_loop(const struct stats_options *o);

/* stats --watch, and --hist with --interval where screen_can(): an exit status. */
int stats_watch(struct stats_options *o);

/* Whether standard output is a terminal that can be drawn on again and again. */
bool screen_can(void);

#endif
