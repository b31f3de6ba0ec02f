/* SPDX-License-Identifier: BSD-2-Clause */
/* What a group's programs take of the machine's time. */
#ifndef FUNCSNOOP_STATS_COST_H
#define FUNCSNOOP_STATS_COST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "group/group.h"
#include "kernel/link.h"
#include "pins/bpffs.h"
#include "shared/words.h"

/*
 * Where a number comes from: the kernel's own accounting of the programs' run time, without
 * the traps (only while kernel.bpf_stats_enabled is 1, and for CAP_SYS_ADMIN), else hits of
 * probes times what one costs on this machine, traps included (calibrate.h).
 */
enum cost_source { COST_UNKNOWN, COST_ACCOUNTED, COST_CALIBRATED };

/*
 * What hits took, by each kind of probe: entries, ends with or without their call, and jumps
 * that were looked at. What only the entry of a call takes is that of a call whose end is not
 * looked for; a jump that does not leave takes as much as an emulated entry.
 */
uint64_t cost_of_hits(const struct price *price, enum price_site site, enum price_end end,
	const struct fsn_counts *n);

struct cost_reading {
	enum cost_source source;
	uint64_t at_ns; /* CLOCK_MONOTONIC */
	uint64_t ns;    /* taken since some moment in the past */
};

/* What programs take, in ns of each second. */
struct cost {
	enum cost_source source; /* COST_UNKNOWN: not known */
	uint64_t ns_per_s;
};

/* Between two readings; not known if their sources differ, or a reset came between. */
struct cost cost_between(const struct cost_reading *before, const struct cost_reading *after);

/*
 * What the programs of @cnt groups take now: they are watched for COST_WINDOW_MS, unless of
 * none anything is known. A group that is NULL is passed over, its cost not known. Between
 * begin and end the caller may do other things, for which the watch does not wait longer.
 */
#define COST_WINDOW_MS 50
void cost_watch(const struct bpffs *fs, struct group *const *groups, size_t cnt,
	struct cost *ret_costs);
void cost_watch_begin(const struct bpffs *fs, struct group *const *groups, size_t cnt,
	struct cost_reading *ret_before);
void cost_watch_end(const struct bpffs *fs, struct group *const *groups, size_t cnt,
	const struct cost_reading *before, struct cost *ret_costs);

/* "kernel", "calibration" or NULL: the word of JSON documents. */
const char *cost_source_name(enum cost_source source);

/* --- what a probed call costs on this machine, as calibrate() has measured it -------------- */

/* Name under which it is kept until the next boot (base/file.h). */
#define CALIBRATION_CACHE "calibration"

/* Two windows that differ by more, in thousandths, are noise: the figures are not to be trusted. */
#define CALIBRATION_STEADY 30

struct calibration {
	struct price price;
	uint32_t spread; /* thousandths by which the two lowest windows differ, at most */
};

/* Keeps what was measured of links of @mode until the next boot, beside that of others. */
void calibration_write(enum link_mode mode, const struct calibration *calibration);

/* What was kept since the last boot. */
bool calibration_read(enum link_mode mode, struct calibration *ret_calibration);

#endif
