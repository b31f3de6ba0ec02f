// SPDX-License-Identifier: BSD-2-Clause
// funcsnoop run -p PID without a target: what a process does, by several runs at once.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "internal.h"
#include "proc/proc.h"

#define ROWS "10"

static const struct part {
	const char *title;
	const char *args[8]; /* behind `run` */
} parts[] = {
	{ "On CPU: functions, by samples", { "cpu", "--by", "flat", "--top", ROWS } },
	{ "Off CPU: where threads waited",
		{ "off-cpu", "--stacks", "all", "--by", "stack" } },
	{ "System calls, by time", { "syscalls", "--top", ROWS } },
};

struct running {
	pid_t pid;
	int out_fd;
};

static volatile sig_atomic_t told; /* the signal that is to end the parts */

static void note_signal(int signal)
{
	told = signal;
}

/* The command line of @part for the processes of @o. To be freed. */
static char **line_of(const struct options *o, const struct part *part, char (*numbers)[16])
{
	const pid_t *pids = o->attach.pids.of;
	size_t cnt = o->attach.pids.cnt, at = 0;
	char **argv = calloc(16 + ARRAY_SIZE(part->args) + 2 * cnt, sizeof(char *));

	if (!argv)
		return NULL;
	argv[at++] = (char *)"funcsnoop";
	if (o->g->bpffs) {
		argv[at++] = (char *)"--bpffs";
		argv[at++] = (char *)o->g->bpffs;
	}
	argv[at++] = (char *)"run";
	for (size_t i = 0; i < ARRAY_SIZE(part->args) && part->args[i]; i++)
		argv[at++] = (char *)part->args[i];
	argv[at++] = (char *)"--quiet";
	for (size_t i = 0; i < cnt; i++) {
		snprintf(numbers[i], sizeof(numbers[i]), "%d", pids[i]);
		argv[at++] = (char *)"--pid";
		argv[at++] = numbers[i];
	}
	if (o->duration_ns) {
		snprintf(numbers[cnt], sizeof(numbers[cnt]), "%ums",
			(unsigned int)(o->duration_ns / 1000000));
		argv[at++] = (char *)"--duration";
		argv[at++] = numbers[cnt];
	}
	return argv;
}

static int start(const struct options *o, const struct part *part, struct running *ret_running)
{
	_cleanup_free_ char (*numbers)[16] =
		calloc(o->attach.pids.cnt + 1, sizeof(*numbers));
	char **argv = numbers ? line_of(o, part, numbers) : NULL;

	*ret_running = (struct running) { .out_fd = memfd_create("funcsnoop", MFD_CLOEXEC) };
	fflush(NULL);
	if (argv && ret_running->out_fd >= 0)
		ret_running->pid = fork();
	if (argv && !ret_running->pid && ret_running->out_fd >= 0) {
		dup2(ret_running->out_fd, STDOUT_FILENO);
		execv("/proc/self/exe", argv);
		_exit(EXIT_FAILED);
	}
	free(argv);
	return ret_running->pid > 0 ? 0 : -ENOMEM;
}

static void end_all(const struct running *running, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++)
		if (running[i].pid > 0)
			kill(running[i].pid, SIGINT);
}

/* Waits for all. The first that fails ends the others. A terminal's Ctrl-C reaches them, too. */
static int wait_for(struct running *running, size_t cnt)
{
	int status = 0, one;
	pid_t pid;

	while ((pid = waitpid(-1, &one, 0)) > 0 || errno == EINTR) {
		if (pid < 0) {
			if (told)
				end_all(running, cnt);
			continue;
		}
		for (size_t i = 0; i < cnt; i++)
			if (running[i].pid == pid)
				running[i].pid = 0;
		if (one && !status) {
			status = WIFEXITED(one) ? WEXITSTATUS(one) : EXIT_FAILED;
			end_all(running, cnt);
		}
	}
	return status;
}

static void print_part(const struct part *part, const struct running *running)
{
	char buf[4096];
	ssize_t n;

	printf("\n%s\n", part->title);
	fflush(stdout);
	lseek(running->out_fd, 0, SEEK_SET);
	while ((n = read(running->out_fd, buf, sizeof(buf))) > 0)
		fwrite(buf, 1, n, stdout);
}

static void print_processes(const struct options *o)
{
	const pid_t *pids = o->attach.pids.of;
	char comm[PROC_COMM_LEN];

	for (size_t i = 0; i < o->attach.pids.cnt; i++) {
		proc_comm(pids[i], pids[i], comm);
		printf("process %d, %s\n", pids[i], comm);
	}
}

int run_summary(const struct options *o)
{
	struct sigaction action = { .sa_handler = note_signal }, before[2];
	struct running running[ARRAY_SIZE(parts)] = {};
	const pid_t *pids = o->attach.pids.of;
	int status, code = 0;

	for (size_t i = 0; i < o->attach.pids.cnt; i++)
		if (!proc_thread("/proc", pids[i])) {
			struct err err = {};

			err_set(&err, -ESRCH, "there is no process %d", pids[i]);
			return cmd_fail(o->g, &err);
		}
	sigaction(SIGINT, &action, &before[0]);
	sigaction(SIGTERM, &action, &before[1]);
	if (!o->g->quiet && !o->duration_ns)
		cmd_note(o->g, "until Ctrl-C");
	for (size_t i = 0; !code && i < ARRAY_SIZE(parts); i++)
		code = start(o, &parts[i], &running[i]);
	if (code)
		end_all(running, ARRAY_SIZE(parts));
	print_processes(o);
	status = wait_for(running, ARRAY_SIZE(parts));
	sigaction(SIGINT, &before[0], NULL);
	sigaction(SIGTERM, &before[1], NULL);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		if (!code && !status)
			print_part(&parts[i], &running[i]);
		close_fd(running[i].out_fd);
	}
	return code ? EXIT_FAILED : status;
}
