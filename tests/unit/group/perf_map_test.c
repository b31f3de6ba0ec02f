// SPDX-License-Identifier: BSD-2-Clause
// Perf maps: the last line of an address names it, and files of other users are not read.
#include "group/stacks.h"

#include <signal.h>
#include <sys/wait.h>

#include "scratch.h"
#include "tap.h"

#define NOBODY 65534

static char map_path[64];

static void done(void)
{
	unlink(map_path);
}

/* Checks the name of @addr in the map of @pid. */
static void is_name(pid_t pid, uint64_t addr, const char *want, const char *what)
{
	struct perf_map *maps = NULL;

	is_str(perf_map_name(&maps, pid, addr), want, what);
	perf_maps_free(maps);
}

static void write_map(const char *text)
{
	FILE *f;

	unlink(map_path);
	f = fopen(map_path, "w");
	if (!f || fputs(text, f) < 0 || fclose(f))
		scratch_die(map_path);
}

#define SPACE 256

/* Each address is of the last line that has it: lines are laid over each other in an array. */
static void test_overlaps(void)
{
	unsigned int seed = 1, wrong = 0;

	for (unsigned int round = 0; round < 300; round++) {
		int last[SPACE], cnt = rand_r(&seed) % 40;
		struct perf_map *maps = NULL;
		char want[16];
		FILE *f;

		memset(last, -1, sizeof(last));
		f = fopen(map_path, "w");
		for (int i = 0; f && i < cnt; i++) {
			unsigned int at = rand_r(&seed) % SPACE, size = rand_r(&seed) % 48;

			fprintf(f, "%x %x line%d\n", at, size, i);
			for (unsigned int k = at; k < at + size && k < SPACE; k++)
				last[k] = i;
		}
		if (!f || fclose(f))
			scratch_die(map_path);
		for (unsigned int at = 0; at < SPACE; at++) {
			const char *name = perf_map_name(&maps, getpid(), at);

			snprintf(want, sizeof(want), "line%d", last[at]);
			wrong += last[at] < 0 ? name != NULL : !name || strcmp(name, want) != 0;
		}
		perf_maps_free(maps);
	}
	is_int(wrong, 0, "an address is called what the last line says that has it");
}

static void test_lines(void)
{
	write_map("no number\n10\n10 10\n10 10 \n100 10 right\n-1 -1 top\n200 0 empty\n"
		  "300 ffffffffffffffff endless");
	is_name(getpid(), 0x10f, "right", "lines that say nothing are skipped");
	is_name(getpid(), 0x110, NULL, "a piece ends where its size says");
	is_name(getpid(), 0x10, NULL, "a line without a name is none");
	is_name(getpid(), 0x200, NULL, "a piece without a size is none");
	is_name(getpid(), UINT64_MAX - 1, "endless", "a piece ends with the addresses");
}

static void test_long_name(void)
{
	struct perf_map *maps = NULL;
	const char *name;
	FILE *f;

	write_map("100 10 ");
	f = fopen(map_path, "a");
	for (unsigned int i = 0; f && i < 1000000; i++)
		fputc('A', f);
	if (!f || fclose(f))
		scratch_die(map_path);
	name = perf_map_name(&maps, getpid(), 0x100);
	is_int(name ? strlen(name) : 0, 1024, "an endless name is cut");
	perf_maps_free(maps);
}

/* Each takes 10 times the memory that it takes in the file. */
static void test_many_lines(void)
{
	struct perf_map *maps = NULL;
	FILE *f;

	write_map("100 10 first\n");
	f = fopen(map_path, "a");
	for (unsigned int i = 0; f && i < 1U << 21; i++)
		fputs("1 1 a\n", f);
	if (!f || fputs("200 10 late\n", f) < 0 || fclose(f))
		scratch_die(map_path);
	is_str(perf_map_name(&maps, getpid(), 0x100), "first", "2 million lines are read");
	is_str(perf_map_name(&maps, getpid(), 0x200), NULL, "and no more");
	perf_maps_free(maps);
}

static void test_links(void)
{
	const char *file = scratch("own");
	FILE *f = fopen(file, "w");

	if (!f || fputs("100 10 linked\n", f) < 0 || fclose(f))
		scratch_die(file);
	unlink(map_path);
	if (symlink(file, map_path))
		scratch_die(map_path);
	is_name(getpid(), 0x100, NULL, "a link is not followed");
	unlink(map_path);
	if (mkfifo(map_path, 0666))
		scratch_die(map_path);
	is_name(getpid(), 0x100, NULL, "a FIFO is not waited for");
	unlink(map_path);
}

/* A process of another user; killed and waited for by the caller. */
static pid_t start_nobody(void)
{
	int ready[2];
	char byte;
	pid_t pid;

	if (pipe(ready))
		scratch_die("pipe");
	pid = fork();
	if (!pid) {
		if (setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY) ||
			write(ready[1], "", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	close(ready[1]);
	if (pid < 0 || read(ready[0], &byte, 1) != 1)
		scratch_die("fork");
	close(ready[0]);
	return pid;
}

static void test_owners(void)
{
	char own[sizeof(map_path)];
	pid_t pid;

	if (geteuid()) {
		ok(true, "owners # SKIP needs root");
		return;
	}
	pid = start_nobody();
	strcpy(own, map_path);
	/* It changed its user, so that /proc/PID is root's now. */
	snprintf(map_path, sizeof(map_path), "/tmp/perf-%d.map", (int)pid);
	write_map("100 10 name\n");
	if (chmod(map_path, 0600))
		scratch_die(map_path);
	is_name(pid, 0x100, NULL, "a map of root that the process's user cannot read is not read");
	if (chmod(map_path, 0644))
		scratch_die(map_path);
	is_name(pid, 0x100, "name", "a map of root that everybody can read is");
	if (chown(map_path, 33, -1))
		scratch_die(map_path);
	is_name(pid, 0x100, NULL, "a map of a third user is not read");
	if (chown(map_path, NOBODY, -1) || chmod(map_path, 0600))
		scratch_die(map_path);
	is_name(pid, 0x100, "name", "a map of the process's user is");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	unlink(map_path);
	strcpy(map_path, own);
}

int main(void)
{
	scratch_begin();
	if (!scratch_has_openat2("perf maps"))
		return tap_done();
	snprintf(map_path, sizeof(map_path), "/tmp/perf-%d.map", (int)getpid());
	atexit(done);
	test_overlaps();
	test_lines();
	test_long_name();
	test_many_lines();
	test_links();
	test_owners();
	return tap_done();
}
