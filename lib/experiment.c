// SPDX-License-Identifier: BSD-2-Clause
// Experiments with probes: what is attached, what children do with it, what that means.
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

#include <bpf/bpf.h>

#include "experiment.h"
#include "experiment_child.h"
#include "experiment_code.h"
#include "link.h"
#include "util.h"

/* How a child ends that was not harmed. */
enum end {
	END_FINE,
	END_NO_TEXT,   /* the code could not be mapped */
	END_NO_PROBE,  /* there is no breakpoint where one should be */
	END_NO_EFFECT, /* the return address was not replaced */
	END_NO_FILTER, /* no seccomp filter could be set */
	END_NO_SHADOW, /* this machine gives no shadow stack */
	END_UNCLEAR,
	END_STEPPED,
	END_NOT_THERE, /* the system call does not exist */
	END_BECAME_CALL,
	END_DEADLY_CALL, /* and a forked child dies of it */
	END_CHANGED,
};

struct lab {
	int text_fd;
	int links[2];
	size_t link_cnt;
	enum link_mode mode;
	int code; /* why there are no probes, a negative errno, or 0 */
};

/* --- children ------------------------------------------------------------------------------- */

static const void *map_text(const struct lab *lab)
{
	void *text = mmap(
		NULL, CODE_PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, lab->text_fd, 0);

	return text == MAP_FAILED ? NULL : text;
}

/* The page with the probe of @func in it; else how the child is to end. */
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
 * Every system call but the end is answered by a signal. Whether the kernel lets a system
 * call pass unfiltered does not depend on what the filter says.
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

/* Optimised on the first hit, as seen; a few more do no harm. */
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
 * Whether this process has an area for single steps; the kernel makes it with the first
 * instruction that needs one (kernel/events/uprobes.c, get_xol_area), a forked child has
 * none. -1: can't be told. Raw reads: a child uses no heap.
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

/* --- the page and its probes ---------------------------------------------------------------- */

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U /* of the file's mode; it can be mapped all the same */
#endif

static int make_text(int *ret_fd)
{
	_cleanup_close_ int fd = memfd_create("funcsnoop", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
	uint8_t page[CODE_PAGE];

	if (fd < 0 && errno == EINVAL) /* before 6.3 */
		fd = memfd_create("funcsnoop", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	code_write(page);
	if (write(fd, page, sizeof(page)) != sizeof(page))
		return -EIO;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/*
 * A program that gives the cookie's lowest bit back. To a session it says with 1 at the
 * entry that the end of this call is of no interest, and no return probe comes to be; other
 * links do not care.
 */
static int load_program(unsigned int type)
{
	struct bpf_insn insns[] = {
		{ .code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_get_attach_cookie },
		{ .code = BPF_ALU64 | BPF_AND | BPF_K, .dst_reg = BPF_REG_0, .imm = 1 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = type);
	int fd = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "fsn_experiment", "GPL", insns,
		ARRAY_SIZE(insns), &opts);

	return fd < 0 ? -errno : fd;
}

/* What is probed; the first two are all that a kernel with slow links is asked about. */
static const enum code_func probed[] = { CODE_RETURN, CODE_NOP5, CODE_STEP, CODE_CALL,
	CODE_NOPS, CODE_NOPS + 1, CODE_NOPS + 2, CODE_NOPS + 3, CODE_NOPS + 4 };

struct probed_list {
	unsigned long offsets[ARRAY_SIZE(probed)];
	uint64_t cookies[ARRAY_SIZE(probed)]; /* 1: an entry probe alone */
	size_t cnt;
};

static void list_probes(struct probed_list *list)
{
	list->cnt = 0;
	for (size_t i = 0; i < ARRAY_SIZE(probed); i++) {
		if (!code_has(probed[i]))
			continue;
		list->offsets[list->cnt] = code_probe(probed[i]);
		list->cookies[list->cnt++] = probed[i] != CODE_RETURN;
	}
}

/* Probes @first to @first + @cnt - 1; perf links are one for each. */
static int attach_some(struct lab *lab, enum link_mode mode, int prog,
	struct probed_list *list, size_t first, size_t cnt)
{
	const struct link_probes probes = { lab->text_fd, list->offsets + first,
		list->cookies + first, cnt };
	bool is_return = !list->cookies[first] && mode != LINK_SESSION;
	int *fd = &lab->links[lab->link_cnt], code;

	if (!cnt)
		return 0;
	code = mode == LINK_PERF ? link_perf(prog, is_return, &probes, 0, 0, fd, NULL)
				 : link_multi(prog,
					   mode == LINK_SESSION ? LINK_TYPE_UPROBE_SESSION
								: LINK_TYPE_UPROBE_MULTI,
					   is_return, &probes, 0, fd, NULL);
	lab->link_cnt += !code;
	return code;
}

/*
 * Each link takes tens of milliseconds to go. A perf link is one for each probe, and kernels
 * that have no others are asked only what could do harm.
 */
static int attach_probes(struct lab *lab, enum link_mode mode)
{
	unsigned int type = mode == LINK_SESSION ? LINK_TYPE_UPROBE_SESSION
		: mode == LINK_MULTI             ? LINK_TYPE_UPROBE_MULTI
						 : 0;
	_cleanup_close_ int prog = load_program(type);
	struct probed_list list;
	int code;

	if (prog < 0)
		return prog;
	list_probes(&list);
	if (mode == LINK_SESSION)
		return attach_some(lab, mode, prog, &list, 0, list.cnt);
	code = attach_some(lab, mode, prog, &list, 0, 1);
	if (code)
		return code;
	return attach_some(lab, mode, prog, &list, 1,
		mode == LINK_PERF && list.cnt > 1 ? 1 : list.cnt - 1);
}

static void remove_probes(struct lab *lab)
{
	while (lab->link_cnt)
		close(lab->links[--lab->link_cnt]);
}

static void lab_open(struct lab *lab)
{
	static const enum link_mode modes[] = { LINK_SESSION, LINK_MULTI, LINK_PERF };

	lab->code = make_text(&lab->text_fd);
	if (lab->code)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		lab->mode = modes[i];
		lab->code = attach_probes(lab, modes[i]);
		if (!lab->code || lab->code == -EPERM)
			return;
		remove_probes(lab);
	}
}

static void lab_close(struct lab *lab)
{
	remove_probes(lab);
	close_fd(lab->text_fd);
}

/* --- what it means -------------------------------------------------------------------------- */

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

static int (*const jobs[JOB_CNT])(const void *lab) = {
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

/* Ends that say nothing of the kernel. */
static void say_unknown(struct experiment_result *r, const struct lab *lab, int end)
{
	static const char *const texts[] = {
		[END_NO_TEXT] = "code in a memfd cannot be mapped",
		[END_NO_PROBE] = "the probe was not put in place",
		[END_NO_EFFECT] = "the return probe did nothing",
		[END_NO_FILTER] = "no seccomp filter could be set",
	};

	if (lab->code == -EPERM || lab->code == -EACCES)
		say(r, ANSWER_UNKNOWN, "not tried: needs CAP_BPF and CAP_PERFMON");
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

/* Ends of an experiment that lives or dies. */
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

/* Without probes the system call that they make tells as much. */
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
	static const char none[] = "no shadow stacks on this machine";

	if (ends[JOB_SHADOW] == END_NO_SHADOW) {
		say(&results[EXPERIMENT_SHADOW], ANSWER_YES, none);
		say(&results[EXPERIMENT_CALL], ANSWER_YES, none);
	} else if (ends[JOB_SHADOW] != END_FINE) {
		say(&results[EXPERIMENT_SHADOW], ANSWER_UNKNOWN,
			"no process with a shadow stack could be had");
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
		child_start(&children[i], jobs[i], lab);
	for (size_t i = 0; i < JOB_CNT; i++)
		ends[i] = child_wait(&children[i]);
	sigaction(SIGCHLD, &old, NULL);
}

void experiments_run(struct experiment_result results[EXPERIMENT_CNT])
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
}
