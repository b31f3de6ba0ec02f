// SPDX-License-Identifier: BSD-2-Clause
// The jobs of the self-tests, which run in parallel, their results, and the rules that the planner
// derives from these. Results are cached until the next boot. Jobs run in children that may die,
// quiet, limited in time and always waited for; they call a page of code in a memfd with probes.
#include <bpf/bpf.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/file.h"
#include "base/util.h"
#include "code/plan.h"
#include "kernel/kernel.h"

struct child {
	pid_t pid;
	int fd; /* pidfd, or -1 */
};

/* Results of child_wait() other than the value of the function, 0 to 99. */
#define CHILD_SIGNAL 128  /* + the signal that killed it */
#define CHILD_LOST   1000 /* no child, or it did not exit in time */

/* Ends the calling child at once, by exit_group alone. */
static _Noreturn void child_exit(int code)
{
	for (;;)
		syscall(SYS_exit_group, code);
}

/* --- machine code to be probed, and calls of it --------------------------------------------- */

/* Functions of the page, and the locations of their probes. */
enum code_func {
	CODE_PLAIN,  /* returns its return address; has no probe */
	CODE_RETURN, /* the same with a return probe */
	CODE_STEP,   /* starts with a probed instruction that no kernel emulates */
	CODE_CALL,   /* starts with a probed call */
	CODE_NOP5,   /* keeps its argument below the stack pointer across a probed nop */
	CODE_NOPS,   /* first of CODE_NOPS_CNT that start with a probed nop */
	CODE_NOPS_CNT = 5,
	CODE_CNT = CODE_NOPS + CODE_NOPS_CNT,
};

#define CODE_PAGE 4096

#define SYS_URETPROBE 335 /* made by return probes: x86-64, 6.11 and later */
#define SYS_UPROBE    336 /* replaces probed nops: x86-64, 6.18 and later */

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

#define ARCH_SHSTK_ENABLE 0x5001
#define ARCH_SHSTK_SHSTK  1

/* No function may return between the call and its answer. */
#define RAW_SYSCALL(ret, nr, arg1, arg2)                                         \
	__asm__ volatile("syscall"                                               \
			 : "=a"(ret)                                             \
			 : "a"((long)(nr)), "D"((long)(arg1)), "S"((long)(arg2)) \
			 : "rcx", "r11", "memory")

/* Explains why probes are safe without a shadow stack. */
static const char code_unshadowed[] = "no shadow stacks on this machine";

/*
 * Gives the calling thread a shadow stack (ARCH_SHSTK_ENABLE, Documentation/arch/x86/shstk.rst),
 * calls @func, and exits with 0. Returns only if there is no shadow stack, with a negative errno.
 */
static int code_call_shadowed(const void *text, enum code_func func)
{
	void (*call)(void) = (void (*)(void))((uintptr_t)text + func * SLOT);
	long ret;

	RAW_SYSCALL(ret, SYS_arch_prctl, ARCH_SHSTK_ENABLE, ARCH_SHSTK_SHSTK);
	if (ret)
		return ret;
	call();
	child_exit(0);
}

/*
 * Makes a system call of probes from a wrong place: an error or SIGILL, or -ENOSYS if this kernel
 * does not have it.
 */
static int code_call_kernel(long nr)
{
	long ret;

	RAW_SYSCALL(ret, nr, 0, 0);
	return ret;
}

#elif defined(__aarch64__)

static const struct code codes[CODE_CNT] = {
	/* mov x0, x30; ret */
	[CODE_PLAIN] = { 8, 0, { 0xe0, 0x03, 0x1e, 0xaa, 0xc0, 0x03, 0x5f, 0xd6 } },
	[CODE_RETURN] = { 8, 0, { 0xe0, 0x03, 0x1e, 0xaa, 0xc0, 0x03, 0x5f, 0xd6 } },
};

/* Up to 6.17 ARM64_GCS excludes UPROBES (arch/arm64/Kconfig); later kernels know both. */
static const char code_unshadowed[] = "not tried; kernels keep guarded control stacks right";

static int code_call_shadowed(const void *text, enum code_func func)
{
	(void)text, (void)func;
	return -EOPNOTSUPP;
}

static int code_call_kernel(long nr)
{
	(void)nr;
	return -ENOSYS;
}

#endif

static void code_write(uint8_t page[CODE_PAGE])
{
	memset(page, 0, CODE_PAGE);
	for (size_t i = 0; i < CODE_CNT; i++)
		memcpy(page + i * SLOT, codes[i].bytes, codes[i].size);
}

/* True if @func exists on this architecture. */
static bool code_has(enum code_func func)
{
	return codes[func].size;
}

/* Offset in the page of the probe of @func. */
static unsigned long code_probe(enum code_func func)
{
	return func * SLOT + codes[func].probe;
}

/* The first byte of the probe of @func: in @text as it is now, and as written. */
static uint8_t code_byte(const void *text, enum code_func func)
{
	return ((const volatile uint8_t *)text)[code_probe(func)];
}

static uint8_t code_byte_written(enum code_func func)
{
	return codes[func].bytes[codes[func].probe];
}

/* Calls @func in the mapping @text of the page, always from the same instruction. */
__attribute__((noinline)) static uintptr_t code_call(
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

/*
 * Runs @fn in a child, which exits with its value. The child leaves no core dump and no line in the
 * kernel log if it dies of a fault. It is killed with its parent or after EXPERIMENT_LIMIT_S. @fn
 * must not use stdio or the heap. The caller must call child_wait().
 */
static void child_start(struct child *child, int (*fn)(const void *arg), const void *arg)
{
	pid_t parent = getpid();

	child->fd = -1;
	child->pid = fork();
	if (!child->pid)
		be_child(parent, fn, arg);
	if (child->pid > 0)
		child->fd = syscall(SYS_pidfd_open, child->pid, 0);
}

static int child_wait(struct child *child)
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

/* How a child exits if it was not harmed. */
enum end {
	END_FINE,
	END_NO_TEXT,   /* the code could not be mapped */
	END_NO_PROBE,  /* no breakpoint where one is expected */
	END_NO_EFFECT, /* the return address was not replaced */
	END_NO_FILTER, /* a seccomp filter cannot be set */
	END_NO_SHADOW, /* the machine has no shadow stack */
	END_UNCLEAR,
	END_STEPPED,
	END_NOT_THERE, /* the system call does not exist */
	END_BECAME_CALL,
	END_DEADLY_CALL, /* and a forked child dies of it */
	END_CHANGED,
};

/* The page of code and the links of its probes. */
struct lab {
	int text_fd;
	int links[2];
	size_t link_cnt;
	enum link_mode mode;
	int code; /* negative errno if there are no probes; else 0 */
};

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
		link_close(lab->links[--lab->link_cnt], LINK_CLOSE_NS);
}

/* Creates the page and attaches the probes, or sets .code. lab_close() is always required. */
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
	return code_call_kernel(SYS_URETPROBE) == -ENOSYS ? END_NOT_THERE : END_FINE;
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
	return code_call_kernel(SYS_UPROBE) == -ENOSYS ? END_NOT_THERE : END_FINE;
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
