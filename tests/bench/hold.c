// SPDX-License-Identifier: BSD-2-Clause
// Processes that map a file's code, as those that use a library do, and do nothing.
//
//	hold COUNT FILE		says "ready"; all end when its input ends
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

static void map_and_wait(const char *path, int ready)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (fd < 0 || fstat(fd, &st))
		die_errno("%s", path);
	if (mmap(NULL, st.st_size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) ==
		MAP_FAILED)
		die_errno("cannot map %s", path);
	if (write(ready, "", 1) != 1)
		die_errno("cannot say that it is mapped");
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	int cnt = argc == 3 ? atoi(argv[1]) : 0, ready[2];
	pid_t *pid;
	char c;

	if (cnt < 1)
		die("usage: hold COUNT FILE");
	pid = calloc(cnt, sizeof(*pid));
	if (!pid || pipe2(ready, O_CLOEXEC))
		die_errno("cannot start");
	for (int i = 0; i < cnt; i++) {
		pid[i] = fork();
		if (pid[i] < 0)
			die_errno("cannot fork");
		if (!pid[i])
			map_and_wait(argv[2], ready[1]);
	}
	close(ready[1]);
	for (int i = 0; i < cnt; i++)
		if (read(ready[0], &c, 1) != 1)
			die("not all processes could map %s", argv[2]);
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF)
		;
	for (int i = 0; i < cnt; i++)
		kill(pid[i], SIGKILL);
	while (wait(NULL) > 0)
		;
	free(pid);
	return 0;
}
