/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Gives what fuzzing has found, tests/fuzz/found/NAME, to the target again. Included after
 * the target's own file; each input runs in a process of its own.
 */
#ifndef FUNCSNOOP_FOUND_H
#define FUNCSNOOP_FOUND_H

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tap.h"

#define FOUND_SECONDS 20 /* what a slow machine needs for a small file, and more */

/* Runs @bytes in a child that may crash, or hang. Whether it ended well. */
static bool found_run(const uint8_t *bytes, size_t size)
{
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		alarm(FOUND_SECONDS);
		LLVMFuzzerTestOneInput(bytes, size);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return false;
	if (WIFSIGNALED(status))
		printf("# signal %d\n", WTERMSIG(status));
	return status == 0;
}

static bool found_replay_file(const char *path)
{
	FILE *f = fopen(path, "r");
	struct stat st;
	uint8_t *bytes;
	bool good;

	if (!f || fstat(fileno(f), &st) < 0)
		return false;
	/* a copy of its size, so that a byte read too many is noticed */
	bytes = malloc(st.st_size ? st.st_size : 1);
	good = bytes && fread(bytes, 1, st.st_size, f) == (size_t)st.st_size &&
		found_run(bytes, st.st_size);
	free(bytes);
	fclose(f);
	return good;
}

static int found_visible(const struct dirent *ent)
{
	return ent->d_name[0] != '.';
}

/* The exit status of main(). */
static int found_replay(const char *name)
{
	struct dirent **ents;
	char path[512];
	int cnt;

	snprintf(path, sizeof(path), "tests/fuzz/found/%s", name);
	cnt = scandir(path, &ents, found_visible, alphasort);
	ok(found_run((const uint8_t *)"", 0), "%s: an empty input does no harm", name);
	for (int i = 0; i < cnt; i++) {
		snprintf(path, sizeof(path), "tests/fuzz/found/%s/%s", name,
			ents[i]->d_name);
		ok(found_replay_file(path), "%s: %s does no harm", name, ents[i]->d_name);
		free(ents[i]);
	}
	if (cnt >= 0)
		free(ents);
	return tap_done();
}

#endif
