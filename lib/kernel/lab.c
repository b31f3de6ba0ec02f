// SPDX-License-Identifier: BSD-2-Clause
// Where experiments are made: children that may die, quiet, limited in time and always waited
// for; and a page of code in a memfd, with the probes on it.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "base/util.h"
#include "internal.h"
#include "kernel/kernel.h"

/* Ends the calling child at once, by exit_group alone. */
static _Noreturn void child_exit(int code)
{
	for (;;)
		syscall(SYS_exit_group, code);
}

/* --- machine code to be probed, and calls of it --------------------------------------------- */

#define SLOT 64 /* bytes for a function: no probe comes near the end of the page */

struct code {
	uint8_t size, probe; /* probe: offset of the probed instruction */
	uint8_t bytes[30];
};

#if defined(__x86_64__)

static const struct code codes[CODE_CNT] = {
	/* mov (%rsp),%rax; ret */
	[CODE_PLAIN] = { 5, 0, { 0x48, 0x8b, 0x04, 0x24, 0xc3 } },
	[CODE_RETURN] = { 5, 0, { 0x48, 0x8b, 0x04, 0x24, 0xc3 } },
	/* mov %rdi,%rax; ret */
	[CODE_STEP] = { 4, 0, { 0x48, 0x89, 0xf8, 0xc3 } },
	/* call 1f; ret; 1: ret */
	[CODE_CALL] = { 7, 0, { 0xe8, 1, 0, 0, 0, 0xc3, 0xc3 } },
	/* mov %rdi,-8(%rsp); nopl 0(%rax,%rax,1); mov -8(%rsp),%rax; ret */
	[CODE_NOP5] = { 16, 5,
		{ 0x48, 0x89, 0x7c, 0x24, 0xf8, 0x0f, 0x1f, 0x44, 0x00, 0x00, 0x48, 0x8b,
			0x44, 0x24, 0xf8, 0xc3 } },
	/* nop of 3, 4, 6, 7, 8 bytes; ret */
	[CODE_NOPS] = { 4, 0, { 0x0f, 0x1f, 0x00, 0xc3 } },
	[CODE_NOPS + 1] = { 5, 0, { 0x0f, 0x1f, 0x40, 0x00, 0xc3 } },
	[CODE_NOPS + 2] = { 7, 0, { 0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00, 0xc3 } },
	[CODE_NOPS + 3] = { 8, 0, { 0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00, 0xc3 } },
	[CODE_NOPS + 4] = { 9, 0,
		{ 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00, 0xc3 } },
};

#define SYS_URETPROBE     335
#define SYS_UPROBE        336
#define ARCH_SHSTK_ENABLE 0x5001
#define ARCH_SHSTK_SHSTK  1

/* No function may return between the call and its answer. */
#define RAW_SYSCALL(ret, nr, arg1, arg2)                                         \
	__asm__ volatile("syscall"                                               \
			 : "=a"(ret)                                             \
			 : "a"((long)(nr)), "D"((long)(arg1)), "S"((long)(arg2)) \
			 : "rcx", "r11", "memory")

const char code_unshadowed[] = "no shadow stacks on this machine";

int code_call_shadowed(const void *text, enum code_func func)
{
	void (*call)(void) = (void (*)(void))((uintptr_t)text + func * SLOT);
	long ret;

	RAW_SYSCALL(ret, SYS_arch_prctl, ARCH_SHSTK_ENABLE, ARCH_SHSTK_SHSTK);
	if (ret)
		return ret;
	call();
	child_exit(0);
}

int code_call_uretprobe(void)
{
	long ret;

	RAW_SYSCALL(ret, SYS_URETPROBE, 0, 0);
	return ret;
}

int code_call_uprobe(void)
{
	long ret;

	RAW_SYSCALL(ret, SYS_UPROBE, 0, 0);
	return ret;
}

#elif defined(__aarch64__)

static const struct code codes[CODE_CNT] = {
	/* mov x0, x30; ret */
	[CODE_PLAIN] = { 8, 0, { 0xe0, 0x03, 0x1e, 0xaa, 0xc0, 0x03, 0x5f, 0xd6 } },
	[CODE_RETURN] = { 8, 0, { 0xe0, 0x03, 0x1e, 0xaa, 0xc0, 0x03, 0x5f, 0xd6 } },
};

/* Up to 6.17 ARM64_GCS excludes UPROBES (arch/arm64/Kconfig); later kernels know both. */
const char code_unshadowed[] = "not tried; kernels keep guarded control stacks right";

int code_call_shadowed(const void *text, enum code_func func)
{
	(void)text, (void)func;
	return -EOPNOTSUPP;
}

int code_call_uretprobe(void)
{
	return -ENOSYS;
}

int code_call_uprobe(void)
{
	return -ENOSYS;
}

#endif

static void code_write(uint8_t page[CODE_PAGE])
{
	memset(page, 0, CODE_PAGE);
	for (size_t i = 0; i < CODE_CNT; i++)
		memcpy(page + i * SLOT, codes[i].bytes, codes[i].size);
}

bool code_has(enum code_func func)
{
	return codes[func].size;
}

/* Offset in the page of the probe of @func. */
static unsigned long code_probe(enum code_func func)
{
	return func * SLOT + codes[func].probe;
}

uint8_t code_byte(const void *text, enum code_func func)
{
	return ((const volatile uint8_t *)text)[code_probe(func)];
}

uint8_t code_byte_written(enum code_func func)
{
	return codes[func].bytes[codes[func].probe];
}

__attribute__((noinline)) uintptr_t code_call(
	const void *text, enum code_func func, uintptr_t arg)
{
	uintptr_t (*call)(uintptr_t) =
		(uintptr_t(*)(uintptr_t))((uintptr_t)text + func * SLOT);
	uintptr_t ret = call(arg);

	/* Prevent a tail call: the function must return here. */
	__asm__ volatile("" : "+r"(ret));
	return ret;
}

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U /* concerns the file mode; the file can still be mapped executable */
#endif

/* --- children ---------------------------------------------------------------------------------- */

/* Before a call that does not return, AddressSanitizer makes a system call of its own. */
#define PLAIN_CODE __attribute__((no_sanitize("address")))

PLAIN_CODE static void on_fault(int sig)
{
	child_exit(CHILD_SIGNAL + sig);
}

/*
 * Handles faults, so that the kernel does not log them. On an alternate stack, because the stack of
 * the dying child may be corrupt.
 */
static void catch_faults(void)
{
	static const int faults[] = { SIGSEGV, SIGILL, SIGBUS, SIGTRAP, SIGSYS };
	static char stack[16384];
	const stack_t alt = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction action = { .sa_handler = on_fault, .sa_flags = SA_ONSTACK };
	sigset_t none;

	sigaltstack(&alt, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(faults); i++)
		sigaction(faults[i], &action, NULL);
	action.sa_handler = SIG_DFL;
	sigaction(SIGALRM, &action, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

PLAIN_CODE _Noreturn static void be_child(
	pid_t parent, int (*fn)(const void *arg), const void *arg)
{
	const struct rlimit no_core = {};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		child_exit(0);
	prctl(PR_SET_DUMPABLE, 0);
	setrlimit(RLIMIT_CORE, &no_core);
	catch_faults();
	alarm(EXPERIMENT_LIMIT_S);
	child_exit(fn(arg));
}

void child_start(struct child *child, int (*fn)(const void *arg), const void *arg)
{
	pid_t parent = getpid();

	child->fd = -1;
	child->pid = fork();
	if (!child->pid)
		be_child(parent, fn, arg);
	if (child->pid > 0)
		child->fd = syscall(SYS_pidfd_open, child->pid, 0);
}

int child_wait(struct child *child)
{
	_cleanup_close_ int fd = TAKE_FD(child->fd);
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	int status;

	if (child->pid < 0)
		return CHILD_LOST;
	/* The alarm does not wake a child that hangs in the kernel. */
	if (fd >= 0 && poll(&poll_fd, 1, (EXPERIMENT_LIMIT_S + 1) * 1000) == 0) {
		kill(child->pid, SIGKILL);
		if (poll(&poll_fd, 1, 1000) == 0)
			return CHILD_LOST;
	}
	while (waitpid(child->pid, &status, 0) < 0)
		if (errno != EINTR)
			return CHILD_LOST;
	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGALRM ? CHILD_LOST
						   : CHILD_SIGNAL + WTERMSIG(status);
	return WEXITSTATUS(status);
}

/* --- code and probes --------------------------------------------------------------------------- */

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
 * Loads a program that returns the lowest bit of its cookie. At the entry of a session, 1
 * suppresses the return probe of this call; other links ignore the result.
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

/* Probed functions. On a kernel where links are slow, only the first two are tried. */
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

/* Attaches probes @first to @first + @cnt - 1 with one link. */
static int attach_some(struct lab *lab, enum link_mode mode, int prog,
	struct probed_list *list, size_t first, size_t cnt)
{
	const struct link_probes probes = { .file_fd = lab->text_fd,
		.offsets = list->offsets + first, .cookies = list->cookies + first, .cnt = cnt };
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
 * Removing a link takes tens of milliseconds, and perf links are one per probe. So kernels with
 * only perf links are tested only for probes that could do harm.
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

void lab_open(struct lab *lab)
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

void lab_close(struct lab *lab)
{
	remove_probes(lab);
	close_fd(lab->text_fd);
}
