// SPDX-License-Identifier: BSD-2-Clause
// A program that is started stopped, so that it can be watched from its first instruction.
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "base/util.h"
#include "proc.h"
#include "proc/proc.h"

/* --- why a thread waits in the kernel: from /proc and the memory of its process ------------- */

/* System calls whose first argument is a file descriptor. */
static const int of_files[] = { SYS_read, SYS_write, SYS_pread64, SYS_pwrite64, SYS_readv, SYS_writev,
	SYS_recvfrom, SYS_recvmsg, SYS_recvmmsg, SYS_sendto, SYS_sendmsg, SYS_accept, SYS_accept4,
	SYS_connect, SYS_epoll_pwait, SYS_flock, SYS_fcntl, SYS_fsync, SYS_fdatasync, SYS_ioctl,
#ifdef SYS_epoll_wait
	SYS_epoll_wait,
#endif
};

/* A mutex of glibc: struct __pthread_mutex_s, sysdeps/nptl/bits/struct_mutex.h. */
struct mutex {
	int lock; /* the futex; 2: locked, and some thread waits */
	unsigned int count;
	int owner;
};

static bool is_of_file(int number)
{
	return ANY_WHERE(ARRAY_SIZE(of_files), i, of_files[i] == number);
}

/* "202 0x7f.. 0x80 ..., sp, pc"; "-1 sp pc" outside of a system call, or "running". */
static int read_call(pid_t pid, pid_t tid, struct blocked *b)
{
	char path[64], line[256], *end = NULL;
	_cleanup_fclose_ FILE *f = NULL;
	unsigned long long a[6], sp, pc;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", pid, tid);
	f = fopen(path, "re");
	if (!f)
		return -errno;
	errno = 0;
	if (!fgets(line, sizeof(line), f))
		return errno ? -errno : -ESRCH;
	b->number = (int)strtol(line, &end, 10);
	if (end == line || b->number < 0 ||
		sscanf(end, "%llx %llx %llx %llx %llx %llx %llx %llx", &a[0], &a[1], &a[2], &a[3],
			&a[4], &a[5], &sp, &pc) != 8 || !pc) { /* 0: a thread of the kernel */
		b->number = -1;
		return 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(a); i++)
		b->arg[i] = a[i];
	return 0;
}

static void read_file(pid_t pid, struct blocked *b)
{
	char path[64];
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, (int)b->arg[0]);
	len = readlink(path, b->file, sizeof(b->file) - 1);
	b->file[len > 0 ? len : 0] = '\0';
}

/* Returns the thread of @pid whose TID in the process's own namespace is @number, or 0. */
static pid_t thread_of_number(pid_t pid, pid_t number)
{
	_cleanup_free_ pid_t *tids = NULL;
	char path[64];
	size_t cnt = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	if (proc_pids(path, &tids, &cnt, NULL))
		return 0;
	for (size_t i = 0; i < cnt; i++)
		if (proc_own_number("/proc", pid, tids[i]) == number)
			return tids[i];
	return 0;
}

/* The thread that holds the lock, if it is a mutex of the C library in the process's own memory. */
static void read_owner(pid_t pid, struct blocked *b)
{
	unsigned int op = (unsigned int)b->arg[1] & FUTEX_CMD_MASK;
	struct mutex m;
	struct iovec own = { &m, sizeof(m) }, its = { (void *)(uintptr_t)b->arg[0], sizeof(m) };

	if ((op != FUTEX_WAIT && op != FUTEX_WAIT_BITSET) || (uint32_t)b->arg[2] != 2 ||
		process_vm_readv(pid, &own, 1, &its, 1, 0) != sizeof(m) || m.lock != 2 ||
		m.owner <= 0)
		return;
	b->owner = thread_of_number(pid, m.owner);
}

int blocked_read(pid_t pid, pid_t tid, struct blocked *ret_blocked)
{
	struct blocked b = { .number = -1 };
	struct proc_stat stat;
	int code = proc_read_stat("/proc", pid, tid, &stat);

	if (!code)
		code = read_call(pid, tid, &b);
	if (code)
		return code;
	b.state = stat.state;
	if (is_of_file(b.number))
		read_file(pid, &b);
	else if (b.number == SYS_futex)
		read_owner(pid, &b);
	*ret_blocked = b;
	return 0;
}

/* --- The CPU time of processes, by the clock that the kernel has for each ------------------- */

/* As the kernel and the C library number them: clock_getcpuclockid(3), CPUCLOCK_SCHED. */
static clockid_t clock_of(pid_t pid)
{
	return (clockid_t)((~(unsigned int)pid << 3) | 2);
}

void load_new(const pid_t *pids, size_t cnt, struct load *ret_load)
{
	struct load load = { .start_ns = clock_ns(CLOCK_MONOTONIC) };

	load.of = xcalloc(cnt + 1, sizeof(*load.of));
	for (size_t i = 0; i < cnt; i++)
		load.of[i].pid = pids[i];
	load.cnt = cnt;
	load_ns(&load);
	for (size_t i = 0; i < cnt; i++)
		load.of[i].from_ns = load.of[i].ns;
	*ret_load = load;
}

void load_done(struct load *load)
{
	free(load->of);
	load->of = NULL;
	load->cnt = 0;
}

uint64_t load_ns(struct load *load)
{
	uint64_t sum = 0;

	if (!load->cnt)
		return (clock_ns(CLOCK_MONOTONIC) - load->start_ns) *
			sysconf(_SC_NPROCESSORS_ONLN);
	for (size_t i = 0; i < load->cnt; i++) {
		struct load_of *of = &load->of[i];
		struct timespec ts;

		/* The CPU time of an exited process stays in the sum. */
		if (!clock_gettime(clock_of(of->pid), &ts) &&
			ts.tv_sec * 1000000000ULL + ts.tv_nsec > of->ns)
			of->ns = ts.tv_sec * 1000000000ULL + ts.tv_nsec;
		sum += of->ns - of->from_ns;
	}
	return sum;
}

static bool has_runnable_thread(pid_t pid)
{
	_cleanup_free_ pid_t *tids = NULL;
	struct proc_stat stat;
	char path[64];
	size_t cnt = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	if (proc_pids(path, &tids, &cnt, NULL))
		return false;
	for (size_t i = 0; i < cnt; i++)
		if (!proc_read_stat("/proc", pid, tids[i], &stat) && stat.state == 'R')
			return true;
	return false;
}

bool load_sleeps(const struct load *load)
{
	for (size_t i = 0; i < load->cnt; i++)
		if (has_runnable_thread(load->of[i].pid))
			return false;
	return load->cnt;
}

/* --- which program ---------------------------------------------------------------------------- */

/* 0, -ENOENT or -EACCES. */
static int check_program(const char *path)
{
	struct stat st;

	if (stat(path, &st))
		return errno == EACCES ? -EACCES : -ENOENT;
	return S_ISREG(st.st_mode) && !access(path, X_OK) ? 0 : -EACCES;
}

static int find_in_path(const char *name, char **ret_path)
{
	const char *dirs = getenv("PATH");
	int code = -ENOENT, found;
	char *path;

	dirs = dirs ? dirs : "/bin:/usr/bin";
	for (size_t len;; dirs += len + 1) {
		len = strcspn(dirs, ":");
		path = xasprintf("%.*s%s%s", (int)len, dirs, len ? "/" : "", name);
		found = check_program(path);
		if (!found) {
			*ret_path = path;
			return 0;
		}
		free(path);
		/* A later directory may have it; otherwise report this error instead of ENOENT. */
		if (found == -EACCES)
			code = -EACCES;
		if (!dirs[len])
			return code;
	}
}

int started_find(const char *name, char **ret_path, struct err *err)
{
	char *path = NULL;
	int code;

	if (strchr(name, '/')) {
		code = check_program(name);
		path = code ? NULL : xstrdup(name);
	} else {
		code = *name ? find_in_path(name, &path) : -ENOENT;
	}
	if (code)
		return err_sys(err, code, "cannot run '%s'", name);
	*ret_path = path;
	return 0;
}

/* --- starting it ------------------------------------------------------------------------------ */

/* A file that is not executable code is run by the shell, as in execvp(3). */
static char **script_of(const char *path, char *const *argv)
{
	size_t cnt = 1;
	char **script;

	while (argv[cnt])
		cnt++;
	script = xcalloc(cnt + 2, sizeof(*script));
	script[0] = (char *)"/bin/sh";
	script[1] = (char *)path;
	memcpy(script + 2, argv + 1, cnt * sizeof(*script));
	return script;
}

/* Functions of libraries may be probed already, and these calls are not the program's. */
__attribute__((noreturn)) static void become(
	const char *path, char *const *argv, char *const *script, int go_fd, int error_fd)
{
	char c;
	int code;

	if (syscall(SYS_read, go_fd, &c, 1) == 1) {
		syscall(SYS_execve, path, argv, environ);
		if (errno == ENOEXEC)
			syscall(SYS_execve, script[0], script, environ);
		code = errno;
		syscall(SYS_write, error_fd, &code, sizeof(code));
	}
	syscall(SYS_exit_group, 127);
	__builtin_unreachable();
}

int started_start(
	const char *path, char *const *argv, struct started *ret_started, struct err *err)
{
	_cleanup_free_ char **script = script_of(path, argv);
	_cleanup_started_ struct started c = STARTED_NONE;
	int go[2], error[2];

	if (pipe2(go, O_CLOEXEC))
		return err_sys(err, -errno, "cannot run '%s'", argv[0]);
	c.go_fd = go[1];
	if (pipe2(error, O_CLOEXEC)) {
		close(go[0]);
		return err_sys(err, -errno, "cannot run '%s'", argv[0]);
	}
	c.error_fd = error[0];
	c.pid = fork();
	if (!c.pid) {
		close(go[1]);
		become(path, argv, script, go[0], error[1]);
	}
	close(go[0]);
	close(error[1]);
	if (c.pid < 0) {
		c.pid = 0;
		return err_sys(err, -errno, "cannot run '%s'", argv[0]);
	}
	c.fd = syscall(SYS_pidfd_open, c.pid, 0);
	if (c.fd < 0)
		return err_sys(err, -errno, "cannot watch process %d", c.pid);
	*ret_started = c;
	memcpy(&c, &(struct started)STARTED_NONE, sizeof(c));
	return 0;
}

int started_go(struct started *c, struct err *err)
{
	int code = 0, go_fd = TAKE_FD(c->go_fd);
	struct sigaction ignore = { .sa_handler = SIG_IGN }, before;
	ssize_t n;

	sigaction(SIGPIPE, &ignore, &before);
	n = write(go_fd, "", 1);
	sigaction(SIGPIPE, &before, NULL);
	close(go_fd);
	if (n != 1)
		return err_set(
			err, -ECHILD, "process %d has ended before it began", c->pid);
	/* The read ends when execve(2) closes the other end. */
	while ((n = read(c->error_fd, &code, sizeof(code))) < 0 && errno == EINTR)
		;
	return n == sizeof(code) ? err_sys(err, -code, "cannot run the command") : 0;
}

/* --- while it runs ---------------------------------------------------------------------------- */

static volatile sig_atomic_t forward_to;

/* The terminal sends its signals to both processes, so only others are forwarded. */
static void on_signal(int sig, siginfo_t *info, void *context)
{
	int before = errno;

	(void)context;
	if (info->si_code <= 0 && forward_to && info->si_pid != forward_to)
		kill(forward_to, sig);
	errno = before;
}

void started_forward_signals(const struct started *c)
{
	static const int signals[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1,
		SIGUSR2 };
	struct sigaction action = { .sa_sigaction = on_signal,
		.sa_flags = SA_SIGINFO | SA_RESTART };

	forward_to = c->pid;
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaction(signals[i], &action, NULL);
}

bool started_ended(const struct started *c)
{
	struct pollfd p = { .fd = c->fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

unsigned int started_signal(const struct started *c)
{
	siginfo_t info = {};

	if (waitid(P_PID, c->pid, &info, WEXITED | WNOHANG | WNOWAIT) ||
		(info.si_code != CLD_KILLED && info.si_code != CLD_DUMPED))
		return 0;
	return (unsigned int)info.si_status;
}

void terminal_save(struct terminal *ret_terminal)
{
	ret_terminal->is_ours = tcgetpgrp(STDERR_FILENO) == getpgrp() &&
		!tcgetattr(STDERR_FILENO, &ret_terminal->modes);
}

void terminal_restore(const struct terminal *t)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN }, before;

	if (!t->is_ours)
		return;
	/* A background process is otherwise stopped by SIGTTOU. */
	sigaction(SIGTTOU, &ignore, &before);
	tcsetpgrp(STDERR_FILENO, getpgrp());
	tcsetattr(STDERR_FILENO, TCSADRAIN, &t->modes);
	sigaction(SIGTTOU, &before, NULL);
}

int started_wait(struct started *c)
{
	struct pollfd p = { .fd = c->fd, .events = POLLIN };
	int status = 0;

	while (poll(&p, 1, -1) != 1)
		;
	forward_to = 0; /* its number is anybody's after this */
	while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
		;
	c->pid = 0;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void started_done(struct started *c)
{
	bool waits = c->go_fd >= 0;

	c->go_fd = close_fd(c->go_fd);
	if (c->pid && waits)
		waitpid(c->pid, NULL, 0);
	close_fd(c->fd);
	close_fd(c->error_fd);
	*c = (struct started)STARTED_NONE;
}
