// SPDX-License-Identifier: BSD-2-Clause
// The jobs of the self-tests' children, each in a separate process that the job may kill.
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "base/util.h"
#include "internal.h"

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

int (*const experiment_jobs[JOB_CNT])(const void *lab) = {
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
