// SPDX-License-Identifier: BSD-2-Clause
// Commands of other tracers, and what does the same here.
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/util.h"
#include "cli/cmd.h"

/* Commands of perf, bcc, strace(1) and ltrace(1), and the line that does the same here. */
static const struct habit {
	const char *name, *line;
} habits[] = {
	{ "record", "run cpu -d 10 --by stack" },
	{ "profile", "run cpu -d 10 --by stack" },
	{ "stat", "run cpu -d 10" },
	{ "report", "stats" },
	{ "top", "run cpu -d 10" },
	{ "trace", "run LIB:FUNCTION --stream" },
	{ "strace", "run syscalls -p PID --stream" },
	{ "funccount", "run LIB:FUNCTION --count" },
	{ "funclatency", "run LIB:FUNCTION --show hist" },
	{ "offcputime", "run off-cpu -p PID --by stack" },
	{ "offwaketime", "run off-cpu -p PID --by waker_stack" },
	{ "memleak", "run malloc -p PID --with memory" },
	{ "probe", "attach GROUP LIB:FUNCTION" },
	{ "ltrace", "run LIB:FUNCTION -p PID --stream" },
	{ "sched", "run run-queue -d 10" },
	{ "runqlat", "run run-queue -d 10 --show hist" },
	{ "syscount", "run syscalls -p PID" },
	{ "stackcount", "run LIB:FUNCTION --by stack" },
	{ "argdist", "run LIB:FUNCTION --by arg1" },
	{ "execsnoop", "run t:sched:sched_process_exec --stream" },
	{ "opensnoop", "run s:openat --stream" },
	{ "statsnoop", "run files --stream" },
	{ "killsnoop", "run s:kill --stream" },
	{ "biolatency", "run s:fsync s:fdatasync s:pread64 s:pwrite64 -d 10 --show hist" },
	{ "tcpconnect", "run s:connect --stream" },
	{ "gethostlatency", "run dns -d 10 --show hist" },
	{ "tplist", "list targets u:LIB" },
};

/*
 * The line of a habit around @command: without the process or the time that it has otherwise. False
 * if it has none, or needs a library first.
 */
static bool habit_command(const char *line, char *const *command, char *buf, size_t size)
{
	static const char *const otherwise[] = { " -p PID", " -d 10" };
	const char *cut = NULL;
	size_t len, i;

	for (i = 0; i < ARRAY_SIZE(otherwise) && !(cut = strstr(line, otherwise[i])); i++)
		;
	if (!cut || strstr(line, "LIB"))
		return false;
	len = snprintf(buf, size, "%.*s%s --", (int)(cut - line), line, cut + strlen(otherwise[i]));
	for (; *command && len < size; command++)
		len += snprintf(buf + len, size - len, " %s", *command);
	return true;
}

const char *cmd_typed_pid(char *const *words)
{
	const char *pid = NULL;

	for (; words && words[0] && words[1]; words++)
		if (!strcmp(words[0], "-p") && !words[1][strspn(words[1], "0123456789")])
			pid = words[1];
	return pid;
}

const char *cmd_typed_time(char *const *words)
{
	const char *before = "";

	for (; words && words[0]; before = *words++)
		if (before[0] != '-' && !words[0][strspn(words[0], "0123456789")])
			return words[0];
	return NULL;
}

/* The first word that is no option of another tracer, nor the value of one. */
static char *const *skip_options(char *const *words)
{
	bool is_value = false;

	for (; words && words[0] && (is_value || words[0][0] == '-'); words++) {
		if (!strcmp(words[0], "--"))
			return words + 1;
		is_value = !is_value && strlen(words[0]) == 2 && strchr("FceopT", words[0][1]);
	}
	return words;
}

/* "-d TIME" in the line of a habit: TIME seconds are all, or the length of an interval. */
static void habit_time(const char *time, char *buf, size_t size)
{
	char *at = strstr(buf, " -d 10"), *rest = at ? at + strlen(" -d 10") : NULL;
	_cleanup_free_ char *line = NULL;

	if (!time || strncmp(buf, "run ", 4))
		return;
	line = at ? xasprintf("%.*s -d %s%s", (int)(at - buf), buf, time, rest)
		  : xasprintf("%s -d %s", buf, time);
	snprintf(buf, size, "%s", line);
}

/* The line of a habit, with the process, the time or the command of the line typed. */
static void habit_text(const char *line, char *const *words, char *buf, size_t size)
{
	const char *at = strstr(line, "PID"), *func = strstr(line, "LIB:FUNCTION"), *pid;
	char *const *given = skip_options(words);
	char with[192];

	if (given && given[0] && given[0][strspn(given[0], "0123456789")] &&
		habit_command(line, given, buf, size))
		return;
	if (func && given && given[0] && strchr(given[0], ':')) {
		snprintf(with, sizeof(with), "%.*s%s%s", (int)(func - line), line, given[0],
			func + strlen("LIB:FUNCTION"));
		line = with;
		at = strstr(line, "PID");
	}
	pid = cmd_typed_pid(words);
	if (pid && at)
		snprintf(buf, size, "%.*s%s%s", (int)(at - line), line, pid, at + 3);
	else if (pid && !strncmp(line, "run ", 4))
		snprintf(buf, size, "%s -p %s", line, pid);
	else
		snprintf(buf, size, "%s", line);
	habit_time(cmd_typed_time(words), buf, size);
}

bool cmd_hint_habit(const char *name, char *const *words, struct err *err)
{
	char text[256];

	for (size_t i = 0; i < ARRAY_SIZE(habits); i++) {
		if (strcmp(habits[i].name, name) != 0)
			continue;
		habit_text(habits[i].line, words, text, sizeof(text));
		err_hint(err, "run 'funcsnoop %s'", text);
		return true;
	}
	return false;
}
