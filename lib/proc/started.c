// SPDX-License-Identifier: BSD-2-Clause
// A program that is started stopped, so that it can be watched from its first instruction.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc/proc.h"

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
		/* One further on may do; else that it is there is what counts. */
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

/* What is no program is a script of the shell's, as execvp(3) has it. */
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
	/* It ends with the program's beginning: the other end is closed on exec. */
	while ((n = read(c->error_fd, &code, sizeof(code))) < 0 && errno == EINTR)
		;
	return n == sizeof(code) ? err_sys(err, -code, "cannot run the command") : 0;
}

/* --- while it runs ---------------------------------------------------------------------------- */

static volatile sig_atomic_t forward_to;

/* What a terminal sends, it sends to both. */
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
	/* Who has lost the terminal is stopped for this otherwise. */
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
