// SPDX-License-Identifier: BSD-2-Clause
// Tables and numbers as people read them.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/text.h"
#include "base/util.h"
#include "find/find.h"
#include "group/group.h"
#include "show/text.h"

bool text_color(const struct globals *g)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	if (g->color != COLOR_AUTO)
		return g->color == COLOR_ALWAYS;
	return !(no && *no) && !(term && !strcmp(term, "dumb")) && isatty(STDOUT_FILENO);
}

unsigned int text_width(void)
{
	struct winsize size;

	if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size))
		return 0;
	return size.ws_col;
}

char *text_escape(const char *str)
{
	struct out o = {};
	char *fit;

	out_escaped(&o, str, SIZE_MAX);
	out_char(&o, '\0');
	/* Tables keep thousands of them, each begun with a page. */
	fit = realloc(o.buf, o.len);
	return fit ? fit : o.buf;
}

const char *text_duration(uint64_t ns, char buf[TEXT_NUM_LEN])
{
	static const char *const units[] = { "ns", "us", "ms", "s" };
	double value = ns;
	int unit = 0;

	while (unit < 3 && value >= 999.5) {
		value /= 1000;
		unit++;
	}
	snprintf(buf, TEXT_NUM_LEN, "%.*f %s",
		unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2, value, units[unit]);
	return buf;
}

const char *text_time(uint64_t realtime_ns, char buf[TEXT_NUM_LEN])
{
	time_t t = realtime_ns / 1000000000ULL;
	struct tm tm;

	gmtime_r(&t, &tm);
	strftime(buf, TEXT_NUM_LEN, "%Y-%m-%dT%H:%M:%SZ", &tm);
	return buf;
}

const char *text_moment(uint64_t realtime_ns, char buf[TEXT_NUM_LEN])
{
	time_t t = realtime_ns / 1000000000ULL, now = time(NULL);
	struct tm tm, today;
	size_t len;

	localtime_r(&t, &tm);
	localtime_r(&now, &today);
	len = strftime(buf, TEXT_NUM_LEN,
		tm.tm_yday == today.tm_yday && tm.tm_year == today.tm_year ? "%H:%M:%S"
									   : "%Y-%m-%d %H:%M:%S",
		&tm);
	snprintf(buf + len, TEXT_NUM_LEN - len, ".%06u",
		(unsigned int)(realtime_ns / 1000 % 1000000));
	return buf;
}

const char *text_bytes(uint64_t bytes, char buf[TEXT_NUM_LEN])
{
	static const char *const units[] = { "B", "kB", "MB", "GB" };
	double value = bytes;
	int unit = 0;

	while (unit < 3 && value >= 1000) {
		value /= 1000;
		unit++;
	}
	snprintf(buf, TEXT_NUM_LEN, "%.*f %s", unit && value < 100 ? 1 : 0, value, units[unit]);
	return buf;
}

char *text_library(const struct object *lib)
{
	_cleanup_free_ char *raw = lib->typed ? xasprintf("%s (%s)", lib->typed, lib->path) : NULL;

	return text_escape(raw ? raw : lib->path);
}

/* "only process 1, 2", nothing where all may pass. */
static void say_numbers(struct out *out, const char *what, const uint32_t *of, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++) {
		out_str(out, i ? " " : what);
		out_u64(out, of[i]);
	}
}

/* A list that has @behind after each of its words. */
static void say_words(struct out *out, const char *what, const char *text, char behind)
{
	if (!*text)
		return;
	out_str(out, what);
	for (; *text; text++)
		if (*text != behind)
			out_char(out, *text);
		else if (text[1])
			out_char(out, ' ');
}

void out_filters(struct out *out, const struct asked *a)
{
	say_numbers(out, "; only process ", a->pids, a->pid_cnt);
	if (a->ended_cnt && a->ended_cnt == a->pid_cnt)
		out_str(out, " (ended)");
	else
		say_numbers(out, ", of which have ended ", a->pids, a->ended_cnt);
	if (a->by_pid && !a->pid_cnt)
		out_str(out, "; only processes that have ended");
	if (a->children)
		out_str(out, " and what they start");
	say_numbers(out, "; only thread ", a->tids, a->tid_cnt);
	say_numbers(out, "; only user ", a->uids, a->uid_cnt);
	for (size_t i = 0; i < a->comm_cnt; i++) {
		out_str(out, i ? " " : "; only command ");
		out_str(out, a->comms[i]);
	}
	say_words(out, "; only CPU ", a->cpus, ' ');
	say_words(out, "; only cgroup ", a->cgroups, '\n');
	if (*a->condition) {
		out_str(out, "; if ");
		out_str(out, a->condition);
	}
}

void out_command(struct out *out, const struct asked *a)
{
	const char *at = a->argv;

	for (; at < a->argv + a->argv_bytes; at += strlen(at) + 1) {
		bool plain = *at && !strpbrk(at, " \t\n*?[]()<>|&;$`'\"\\#~");

		out_str(out, plain ? " " : " '");
		out_str(out, at);
		out_str(out, plain ? "" : "'");
	}
}

const char *text_over(const char *group, const struct asked *a, char *buf, size_t size)
{
	const char *started = a->children ? ", and what they have started" : "";

	if (!asked_is_over(a))
		return NULL;
	if (a->pid_cnt == 1)
		snprintf(buf, size, "process %u, the only one of group '%s', has ended%s",
			a->pids[0], group, started);
	else if (a->pid_cnt)
		snprintf(buf, size, "the %zu processes of group '%s' have ended%s", a->pid_cnt,
			group, started);
	else
		snprintf(buf, size,
			"the processes of group '%s', and what they have started, have ended",
			group);
	return buf;
}

const char *text_exit(unsigned int exit)
{
	static const char *const names[] = { "none", "return", "ret", "same",
		"early", "some" };

	return exit < ARRAY_SIZE(names) ? names[exit] : "unknown";
}

const char *text_limit(enum limit limit)
{
	static const char *const names[LIMIT_CNT] = { NULL, "sampled", "counted only",
		"left out" };

	return limit < LIMIT_CNT ? names[limit] : NULL;
}

const char *text_exits(unsigned int mask, char *buf, size_t size)
{
	static const unsigned int order[] = { FSN_EXIT_RETURN, FSN_EXIT_SOME, FSN_EXIT_EARLY,
		FSN_EXIT_RET, FSN_EXIT_SAME, FSN_EXIT_NONE };
	size_t len = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(order) && len < size; i++)
		if (mask & 1U << order[i])
			len += snprintf(buf + len, size - len, "%s%s", len ? "+" : "",
				text_exit(order[i]));
	return buf;
}

size_t text_columns(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += !utf8_goes_on(*s);
	return n;
}

void text_put_seconds(FILE *f, uint64_t ns)
{
	char buf[32];
	int len = snprintf(buf, sizeof(buf), "%llu.%09llu",
		(unsigned long long)(ns / 1000000000),
		(unsigned long long)(ns % 1000000000));

	while (buf[len - 1] == '0' && buf[len - 2] != '.')
		len--;
	fprintf(f, "%.*s", len, buf);
}
