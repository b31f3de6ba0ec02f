// SPDX-License-Identifier: BSD-2-Clause
// The jobs of the self-tests, which run in parallel, their results, and the rules that the planner
// derives from these. Results are cached until the next boot.
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "base/file.h"
#include "base/util.h"
#include "code/plan.h"
#include "internal.h"
#include "kernel/kernel.h"

/* --- jobs, each in a separate process that the job may kill --------------------------------- */

enum job {
	JOB_RETURN,
	JOB_FILTERED_RETURN,
	JOB_URETPROBE,
	JOB_FILTERED_URETPROBE,
	JOB_UPROBE,
	JOB_SHADOW,
	JOB_SHADOWED_RETURN,
	JOB_SHADOWED_CALL,
	JOB_NOP5,
	JOB_MULTINOP,
	JOB_CNT,
};

static const void *map_text(const struct lab *lab)
{
	void *text = mmap(
		NULL, CODE_PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, lab->text_fd, 0);

	return text == MAP_FAILED ? NULL : text;
}

/* Maps the page and checks that it has the probe of @func. Returns END_FINE or the exit status. */
static int map_probed(const struct lab *lab, enum code_func func, const void **ret_text)
{
	const void *text = map_text(lab);

	if (!text)
		return END_NO_TEXT;
	if (code_byte(text, func) == code_byte_written(func))
		return END_NO_PROBE;
	*ret_text = text;
	return END_FINE;
}

/*
 * Installs a filter that answers every system call except exit_group(2) with SIGSYS. Whether the
 * kernel exempts a system call from filters does not depend on the filter.
 */
static int set_filter(void)
{
	struct sock_filter insns[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
	};
	const struct sock_fprog prog = { ARRAY_SIZE(insns), insns };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) ? -errno : 0;
}

static int call_returning(const void *text)
{
	uintptr_t before = code_call(text, CODE_PLAIN, 0);

	return code_call(text, CODE_RETURN, 0) == before ? END_NO_EFFECT : END_FINE;
}

static int try_return(const void *arg)
{
	const void *text;
	int end = map_probed(arg, CODE_RETURN, &text);

	return end ? end : call_returning(text);
}

static int try_filtered_return(const void *arg)
{
	const void *text;
	int end = map_probed(arg, CODE_RETURN, &text);

	if (end)
		return end;
	return set_filter() ? END_NO_FILTER : call_returning(text);
}

static int try_uretprobe(const void *arg)
{
	(void)arg;
	return code_call_uretprobe() == -ENOSYS ? END_NOT_THERE : END_FINE;
}

static int try_filtered_uretprobe(const void *arg)
{
	if (set_filter())
		return END_NO_FILTER;
	return try_uretprobe(arg);
}

static int try_uprobe(const void *arg)
{
	(void)arg;
	return code_call_uprobe() == -ENOSYS ? END_NOT_THERE : END_FINE;
}

static int call_shadowed(const void *text, enum code_func func)
{
	int code = code_call_shadowed(text, func);

	return code == -EOPNOTSUPP || code == -EINVAL ? END_NO_SHADOW : END_UNCLEAR;
}

static int try_shadow(const void *arg)
{
	const void *text = map_text(arg);

	return text ? call_shadowed(text, CODE_PLAIN) : END_NO_TEXT;
}

static int try_shadowed_return(const void *arg)
{
	const void *text;
	int end = map_probed(arg, CODE_RETURN, &text);

	return end ? end : call_shadowed(text, CODE_RETURN);
}

static int try_shadowed_call(const void *arg)
{
	const void *text;
	int end = map_probed(arg, CODE_CALL, &text);

	return end ? end : call_shadowed(text, CODE_CALL);
}

#define NOP5_VALUE 0x5a5a1234U

static bool nop5_keeps(const void *text)
{
	return code_call(text, CODE_NOP5, NOP5_VALUE) == NOP5_VALUE;
}

/* Its value may be wrong in the parent, too; here only life and death count. */
static int call_nop5_forked(const void *text)
{
	nop5_keeps(text);
	return END_FINE;
}

/* The kernel optimizes the probe at the first hit; the other hits are for certainty. */
static int try_nop5(const void *arg)
{
	const void *text;
	int end = map_probed(arg, CODE_NOP5, &text);
	struct child forked;
	bool changed = false, died;
	uint8_t breakpoint;

	if (end)
		return end;
	breakpoint = code_byte(text, CODE_NOP5);
	for (int i = 0; i < 4; i++)
		changed |= !nop5_keeps(text);
	child_start(&forked, call_nop5_forked, text);
	died = child_wait(&forked) != END_FINE;
	if (code_byte(text, CODE_NOP5) != breakpoint)
		return died ? END_DEADLY_CALL : END_BECAME_CALL;
	return died || changed ? END_CHANGED : END_FINE;
}

/*
 * Returns 1 if this process has an area for single-stepping, 0 if not, -1 if that is unknown. The
 * kernel creates it for the first instruction that needs it (kernel/events/uprobes.c,
 * get_xol_area); a forked child has none. Uses raw reads, because a child must not use the heap.
 */
static int has_step_area(void)
{
	static const char name[] = "[uprobes]\n";
	_cleanup_close_ int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	size_t matched = 0;
	char buf[1024];
	ssize_t n;

	if (fd < 0)
		return -1;
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		for (ssize_t i = 0; i < n; i++) {
			matched =
				buf[i] == name[matched] ? matched + 1 : buf[i] == name[0];
			if (matched == sizeof(name) - 1)
				return 1;
		}
	return n;
}

static int try_multinop(const void *arg)
{
	const void *text;
	int end = map_probed(arg, CODE_STEP, &text);
	int stepped;

	if (end)
		return end;
	for (int i = 0; i < CODE_NOPS_CNT; i++)
		if (code_byte(text, CODE_NOPS + i) == code_byte_written(CODE_NOPS + i))
			return END_NO_PROBE;
	if (has_step_area())
		return END_UNCLEAR;
	for (int i = 0; i < CODE_NOPS_CNT; i++)
		code_call(text, CODE_NOPS + i, 0);
	stepped = has_step_area();
	if (stepped)
		return stepped > 0 ? END_STEPPED : END_UNCLEAR;
	/* The area must show where a step is certain, or its absence says nothing. */
	code_call(text, CODE_STEP, 0);
	return has_step_area() > 0 ? END_FINE : END_UNCLEAR;
}

/* Each takes the struct lab and returns an enum end. */
static int (*const experiment_jobs[JOB_CNT])(const void *lab) = {
	[JOB_RETURN] = try_return,
	[JOB_FILTERED_RETURN] = try_filtered_return,
	[JOB_URETPROBE] = try_uretprobe,
	[JOB_FILTERED_URETPROBE] = try_filtered_uretprobe,
	[JOB_UPROBE] = try_uprobe,
	[JOB_SHADOW] = try_shadow,
	[JOB_SHADOWED_RETURN] = try_shadowed_return,
	[JOB_SHADOWED_CALL] = try_shadowed_call,
	[JOB_NOP5] = try_nop5,
	[JOB_MULTINOP] = try_multinop,
};

/* --- results -------------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static void say(
	struct experiment_result *r, enum answer answer, const char *fmt, ...)
{
	va_list ap;

	r->answer = answer;
	va_start(ap, fmt);
	vsnprintf(r->why, sizeof(r->why), fmt, ap);
	va_end(ap);
}

static const char *signal_name(int end)
{
	const char *name = sigabbrev_np(end - CHILD_SIGNAL);

	return name ? name : "?";
}

/* Explains a self-test without a result. */
static void say_unknown(struct experiment_result *r, const struct lab *lab, int end)
{
	static const char *const texts[] = {
		[END_NO_TEXT] = "code in a memfd cannot be mapped",
		[END_NO_PROBE] = "the probe was not put in place",
		[END_NO_EFFECT] = "the return probe did nothing",
		[END_NO_FILTER] = "no seccomp filter could be set",
	};

	if (lab->code == -EPERM)
		say(r, ANSWER_UNKNOWN, "not tried: needs CAP_BPF and CAP_PERFMON");
	else if (lab->code == -EACCES) /* perf_event_open(2) */
		say(r, ANSWER_UNKNOWN, "not tried: perf links need CAP_SYS_ADMIN");
	else if (lab->code)
		say(r, ANSWER_UNKNOWN, "not tried: no probe: %s", err_text(lab->code));
	else if (end >= CHILD_LOST)
		say(r, ANSWER_UNKNOWN, "the experiment did not end in time");
	else if (end > CHILD_SIGNAL)
		say(r, ANSWER_UNKNOWN, "the experiment died of SIG%s", signal_name(end));
	else if (end < (int)ARRAY_SIZE(texts) && texts[end])
		say(r, ANSWER_UNKNOWN, "%s", texts[end]);
	else
		say(r, ANSWER_UNKNOWN, "the experiment ended unclear (%d)", end);
}

/* Sets the result of a self-test that either finishes or is killed by a signal. */
static void judge(struct experiment_result *r, const struct lab *lab, int end,
	const char *fine, const char *deadly)
{
	if (!lab->code && end == END_FINE)
		say(r, ANSWER_YES, "%s", fine);
	else if (!lab->code && end > CHILD_SIGNAL && end < CHILD_LOST)
		say(r, ANSWER_NO, "%s (SIG%s)", deadly, signal_name(end));
	else
		say_unknown(r, lab, end);
}

/* If probes cannot be attached, calls the system call of return probes directly instead. */
static void judge_seccomp(
	struct experiment_result *r, const struct lab *lab, const int *ends)
{
	int bare = ends[JOB_URETPROBE], filtered = ends[JOB_FILTERED_URETPROBE];

	if (!lab->code)
		judge(r, lab, ends[JOB_FILTERED_RETURN],
			"a return probe was survived under a filter",
			"a return probe kills a process under a filter");
	else if (bare == END_NOT_THERE)
		say(r, ANSWER_YES, "return probes make no system call on this kernel");
	else if (bare == CHILD_SIGNAL + SIGILL && filtered == bare)
		say(r, ANSWER_YES, "filters let the system call of return probes pass");
	else if (bare == CHILD_SIGNAL + SIGILL && filtered == CHILD_SIGNAL + SIGSYS)
		say(r, ANSWER_NO, "filters refuse the system call of return probes");
	else
		say_unknown(r, lab, filtered);
}

static void judge_shadow(
	struct experiment_result *results, const struct lab *lab, const int *ends)
{
	if (ends[JOB_SHADOW] == END_NO_SHADOW) {
		say(&results[EXPERIMENT_SHADOW], ANSWER_YES, "%s", code_unshadowed);
		say(&results[EXPERIMENT_CALL], ANSWER_YES, "%s", code_unshadowed);
	} else if (ends[JOB_SHADOW] != END_FINE) {
		say(&results[EXPERIMENT_SHADOW], ANSWER_UNKNOWN,
			"cannot start a process with a shadow stack");
		results[EXPERIMENT_CALL] = results[EXPERIMENT_SHADOW];
	} else {
		judge(&results[EXPERIMENT_SHADOW], lab, ends[JOB_SHADOWED_RETURN],
			"a return probe was survived with a shadow stack",
			"a return probe kills a process with a shadow stack");
		judge(&results[EXPERIMENT_CALL], lab, ends[JOB_SHADOWED_CALL],
			"a probed call keeps the shadow stack right",
			"a probed call breaks the shadow stack");
	}
}

static void judge_nops(
	struct experiment_result *results, const struct lab *lab, const int *ends)
{
	struct experiment_result *nop5 = &results[EXPERIMENT_NOP5];
	struct experiment_result *multi = &results[EXPERIMENT_MULTINOP];
	int end = ends[JOB_NOP5];

	if (!lab->code && end == END_BECAME_CALL)
		say(nop5, ANSWER_NO, "it becomes a call, which overwrites the red zone");
	else if (!lab->code && end == END_DEADLY_CALL)
		say(nop5, ANSWER_NO, "it becomes a call, of which a forked child dies");
	else if (!lab->code && end == END_CHANGED)
		say(nop5, ANSWER_NO, "a function with a probed nop went wrong");
	else if (lab->code && ends[JOB_UPROBE] == END_NOT_THERE)
		say(nop5, ANSWER_YES, "this kernel turns no nop into a call");
	else
		judge(nop5, lab, end, "it stays a breakpoint, and a forked child lives",
			"a probed nop kills the process");
	if (!lab->code && ends[JOB_MULTINOP] == END_STEPPED)
		say(multi, ANSWER_NO, "they are single-stepped");
	else if (!lab->code && ends[JOB_MULTINOP] == END_FINE)
		say(multi, ANSWER_YES, "3 to 8 bytes run without a single step");
	else if (!lab->code && lab->mode == LINK_PERF)
		say(multi, ANSWER_UNKNOWN, "not tried on a kernel with perf links alone");
	else
		say_unknown(multi, lab, ends[JOB_MULTINOP]);
}

static void run_jobs(const struct lab *lab, int ends[JOB_CNT])
{
	const struct sigaction wait = { .sa_handler = SIG_DFL };
	struct child children[JOB_CNT];
	struct sigaction old;

	/* With SIGCHLD ignored, which is inherited, the kernel keeps no status. */
	sigaction(SIGCHLD, &wait, &old);
	for (size_t i = 0; i < JOB_CNT; i++)
		child_start(&children[i], experiment_jobs[i], lab);
	for (size_t i = 0; i < JOB_CNT; i++)
		ends[i] = child_wait(&children[i]);
	sigaction(SIGCHLD, &old, NULL);
}

/*
 * Runs all self-tests, in parallel. Without CAP_BPF and CAP_PERFMON (or CAP_SYS_ADMIN), results of
 * those that need a probe are unknown. The caller is not affected, and no process or probe remains.
 * Children are killed after EXPERIMENT_LIMIT_S and dump no core. Returns true if all possible
 * results are known and final, so that they can be cached until the next boot.
 */
static bool experiments_run(struct experiment_result results[EXPERIMENT_CNT])
{
	struct lab lab = { .text_fd = -1 };
	int ends[JOB_CNT];

	lab_open(&lab);
	run_jobs(&lab, ends);
	judge(&results[EXPERIMENT_RETURN], &lab, ends[JOB_RETURN],
		"a function with a return probe returns",
		"a return probe kills the process");
	judge_seccomp(&results[EXPERIMENT_SECCOMP], &lab, ends);
	judge_shadow(results, &lab, ends);
	judge_nops(results, &lab, ends);
	if (!code_has(CODE_NOP5)) {
		say(&results[EXPERIMENT_NOP5], ANSWER_YES, "not on this architecture");
		say(&results[EXPERIMENT_CALL], ANSWER_YES, "not on this architecture");
		say(&results[EXPERIMENT_MULTINOP], ANSWER_NO, "not on this architecture");
	}
	lab_close(&lab);
	for (size_t i = 0; i < EXPERIMENT_CNT; i++)
		if (results[i].answer == ANSWER_UNKNOWN &&
			(i != EXPERIMENT_MULTINOP || lab.mode != LINK_PERF))
			return false;
	return !lab.code;
}

/* --- the cache of answers: a line for each experiment ---------------------------------------- */

#define CACHE_FILE "feature"

static const char answers[] = {
	[ANSWER_UNKNOWN] = '?', [ANSWER_NO] = 'n', [ANSWER_YES] = 'y'
};

static bool take_line(char *line, size_t number, struct experiment_result *ret)
{
	const char *answer;

	if (line[0] != (char)('0' + number) || line[1] != ' ' || !line[2] ||
		line[3] != ' ')
		return false;
	answer = memchr(answers, line[2], sizeof(answers));
	if (!answer || !line[4] || strlen(line + 4) >= sizeof(ret->why))
		return false;
	for (const char *c = line + 4; *c; c++)
		if (*c < ' ' || *c > '~')
			return false;
	ret->answer = (enum answer)(answer - answers);
	strcpy(ret->why, line + 4);
	return true;
}

static bool take_text(char *text, struct experiment_result results[EXPERIMENT_CNT])
{
	struct experiment_result found[EXPERIMENT_CNT];
	char *line = text, *end;

	for (size_t i = 0; i < EXPERIMENT_CNT; i++) {
		end = strchr(line, '\n');
		if (!end)
			return false;
		*end = '\0';
		if (!take_line(line, i, &found[i]))
			return false;
		line = end + 1;
	}
	if (*line)
		return false;
	memcpy(results, found, sizeof(found));
	return true;
}

static bool cache_read(struct experiment_result results[EXPERIMENT_CNT])
{
	_cleanup_free_ char *text = bootcache_read(CACHE_FILE);

	return text && take_text(text, results);
}

static void cache_write(const struct experiment_result results[EXPERIMENT_CNT])
{
	char text[BOOTCACHE_MAX];
	size_t len = 0;

	for (size_t i = 0; i < EXPERIMENT_CNT && len < sizeof(text); i++)
		len += snprintf(text + len, sizeof(text) - len, "%zu %c %s\n", i,
			answers[results[i].answer], results[i].why);
	bootcache_write(CACHE_FILE, text);
}

/* --- rules ----------------------------------------------------------------------------------- */

bool kernel_experiments(bool fresh, struct experiment_result results[EXPERIMENT_CNT])
{
	if (!fresh && cache_read(results))
		return true;
	if (experiments_run(results))
		cache_write(results);
	return false;
}

void kernel_rules_from(struct plan_rules *rules, const struct experiment_result *results)
{
	rules->nop5_unsafe = results[EXPERIMENT_NOP5].answer != ANSWER_YES;
	rules->multinop_emulated = results[EXPERIMENT_MULTINOP].answer == ANSWER_YES;
	rules->call_unsafe = results[EXPERIMENT_CALL].answer != ANSWER_YES;
	rules->return_unsafe = results[EXPERIMENT_RETURN].answer == ANSWER_NO ||
		results[EXPERIMENT_SECCOMP].answer != ANSWER_YES ||
		results[EXPERIMENT_SHADOW].answer != ANSWER_YES;
}

void kernel_rules(struct plan_rules *rules, enum link_mode link)
{
	struct experiment_result results[EXPERIMENT_CNT];

	kernel_experiments(false, results);
	kernel_rules_from(rules, results);
	rules->kprobes = link == LINK_MULTI || link == LINK_PERF;
	if (link == LINK_AUTO || link == LINK_SESSION)
		rules->prove = !link_mode_probe(LINK_SESSION);
}
