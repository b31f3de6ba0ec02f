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
	const char *but; /* what differs; or NULL */
} habits[] = {
	{ "record", "run cpu -d 10 --by stack", NULL },
	{ "profile", "run cpu -d 10 --by stack", NULL },
	{ "stat", "run cpu -d 10", NULL },
	{ "report", "stats", NULL },
	{ "top", "run cpu -d 10", NULL },
	{ "trace", "run LIB:FUNCTION --stream", NULL },
	{ "strace", "run syscalls -p PID --stream", NULL },
	{ "strace -c", "run syscalls -p PID", NULL },
	{ "gdb", "stack PID", NULL },
	{ "funccount", "run LIB:FUNCTION --count", NULL },
	{ "funclatency", "run LIB:FUNCTION --show hist", NULL },
	{ "offcputime", "run off-cpu -p PID --by stack", NULL },
	{ "offwaketime", "run off-cpu -p PID --by waker_stack", NULL },
	{ "wakers", "run off-cpu -p PID --by comm,waker", NULL },
	{ "wakeup", "run run-queue -p PID --by comm,waker", NULL },
	{ "sched_wakeup", "run run-queue -p PID --by comm,waker", NULL },
	{ "wakeuptime", "run off-cpu -p PID --by comm,waker", NULL },
	{ "memleak", "run malloc -p PID --with memory", NULL },
	{ "probe", "attach GROUP LIB:FUNCTION", NULL },
	{ "ltrace", "run LIB:FUNCTION -p PID --stream", NULL },
	{ "sched", "run run-queue -d 10", NULL },
	{ "runqlat", "run run-queue -d 10 --show hist", NULL },
	{ "syscount", "run syscalls -p PID", NULL },
	{ "stackcount", "run LIB:FUNCTION --by stack", NULL },
	{ "argdist", "run LIB:FUNCTION --by arg1", NULL },
	{ "execsnoop", "run t:sched:sched_process_exec --stream", NULL },
	{ "opensnoop", "run s:openat --stream", NULL },
	{ "statsnoop", "run files --stream", NULL },
	{ "killsnoop", "run s:kill --stream", NULL },
	{ "biolatency", "run s:fsync s:fdatasync s:pread64 s:pwrite64 -d 10 --show hist",
		": times of system calls, not of requests to the disk" },
	{ "tcpconnect", "run s:connect --stream", NULL },
	{ "gethostlatency", "run dns -d 10 --show hist", NULL },
	{ "tplist", "list targets u:LIB", NULL },
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

static bool is_strace(const struct habit *h)
{
	return !strncmp(h->name, "strace", strlen("strace"));
}

/* Letters of options that have a value. */
static const char *valued(const struct habit *h)
{
	return is_strace(h) ? "EIOPSUXabeopsu" : "FceopT";
}

/* The first word that is no option of another tracer, nor the value of one. */
static char *const *skip_options(const struct habit *h, char *const *words)
{
	bool is_value = false;

	for (; words && words[0] && (is_value || words[0][0] == '-'); words++) {
		if (!strcmp(words[0], "--"))
			return words + 1;
		is_value = !is_value && strlen(words[0]) == 2 && strchr(valued(h), words[0][1]);
	}
	return words;
}

/* Whether strace(1) is to count: "-c", also among other letters, before @end. */
static bool has_count(const struct habit *h, char *const *words, char *const *end)
{
	for (; is_strace(h) && words != end; words++)
		if (words[0][0] == '-' && words[0][1] != '-' &&
			strcspn(words[0], "c") < strcspn(words[0], valued(h)))
			return true;
	return false;
}

static const struct habit *habit_find(const char *name)
{
	return FIND_WHERE(habits, ARRAY_SIZE(habits), i, !strcmp(habits[i].name, name));
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

/* The number of the parameter called @name of "(TYPE NAME, ...)"; 1 if there is none. */
static unsigned int parameter(const char *params, const char *name)
{
	size_t len, name_len = strcspn(name, "#");
	unsigned int n = 1;

	for (const char *p = params; *p && *p != ')'; p += len, n++) {
		len = strcspn(++p, ",)");
		if (len > name_len && !strncmp(p + len - name_len, name, name_len) &&
			strchr(" *&", p[len - name_len - 1]))
			return n;
	}
	return 1;
}

/*
 * The line of a habit with the function of @spec. "p:LIB:FUNCTION(PARAMETERS):TYPE:EXPRESSION", as
 * argdist(8) has it, is LIB:FUNCTION, by a parameter or the result. Without LIB it is the kernel's.
 */
static void habit_function(const char *line, const char *spec, char *buf, size_t size)
{
	bool is_return = !strncmp(spec, "r:", 2);
	const char *name = is_return || !strncmp(spec, "p:", 2) ? spec + 2 : spec;
	const char *func = strstr(line, "LIB:FUNCTION"), *rest = func + strlen("LIB:FUNCTION");
	int len = (int)strcspn(name, "( ");
	char by[24];

	/* Go's main.(*T).F has parentheses, too. */
	if (len && name[len - 1] == '.')
		len = (int)strlen(name);
	if (!strcmp(rest, " --by arg1") && name[len] == '(') {
		snprintf(by, sizeof(by), " --by arg%u",
			parameter(name + len, strrchr(spec, ':') + 1));
		rest = is_return ? " --by result" : by;
	}
	snprintf(buf, size, "%.*s%s%.*s%s", (int)(func - line), line, name[0] == ':' ? "k" : "", len,
		name, rest);
}

/* The line of a habit, with the process, the time or the command of the line typed. */
static void habit_text(const struct habit *h, char *const *words, char *buf, size_t size)
{
	char *const *given = skip_options(h, words);
	const char *line = has_count(h, words, given) ? habit_find("strace -c")->line : h->line;
	const char *at = strstr(line, "PID"), *func = strstr(line, "LIB:FUNCTION"), *pid;
	char with[192];

	if (given && given[0] && given[0][strspn(given[0], "0123456789")] &&
		habit_command(line, given, buf, size))
		return;
	if (func && given && given[0] && strchr(given[0], ':')) {
		habit_function(line, given[0], with, sizeof(with));
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
	bool is_perf = !strcmp(name, "perf") && words && words[0];
	const struct habit *h = habit_find(is_perf ? words[0] : name);
	char text[256];

	if (!h)
		return false;
	habit_text(h, is_perf ? words + 1 : words, text, sizeof(text));
	err_hint(err, "run 'funcsnoop %s'%s", text, h->but ? h->but : "");
	return true;
}

void cmd_counts_line(char *const *words, char *buf, size_t size)
{
	habit_text(habit_find("strace"), words, buf, size);
}
