// SPDX-License-Identifier: BSD-2-Clause
// Makes a group readable for unprivileged users.
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>

#include "group/group.h"
#include "pins/maps.h"

#define READERS (S_IRGRP | S_IROTH)

int access_parse_mode(const char *text, mode_t *ret_mode, struct err *err)
{
	unsigned long mode;
	char *end;

	errno = 0;
	mode = strtoul(text, &end, 8);
	if (errno || end == text || *end || text[0] < '0' || text[0] > '7' || mode > 0777)
		return err_set(err, -EINVAL, "'%s' is not a mode such as 0640", text);
	if (mode & (S_IWGRP | S_IWOTH | S_IXUSR | S_IXGRP | S_IXOTH))
		return err_set(
			err, -EPERM, "mode '%s' gives more than the right to read", text);
	*ret_mode = (mode & READERS) | S_IRUSR | S_IWUSR;
	return 0;
}

static bool parse_id(const char *text, unsigned int *ret_id)
{
	unsigned long id;
	char *end;

	errno = 0;
	id = strtoul(text, &end, 10);
	if (errno || *end || text[0] < '0' || text[0] > '9' || id >= UINT_MAX)
		return false;
	*ret_id = id;
	return true;
}

int access_parse_owner(const char *text, uid_t *ret_uid, gid_t *ret_gid, struct err *err)
{
	_cleanup_free_ char *user = xstrdup(text);
	char *group = strchr(user, ':');
	uid_t uid = (uid_t)-1;
	gid_t gid = (gid_t)-1;
	struct passwd *pw;
	struct group *gr;

	if (group)
		*group++ = '\0';
	if (!*user && (!group || !*group))
		return err_set(err, -EINVAL, "'%s' is not USER:GROUP", text);
	if (*user && !parse_id(user, &uid)) {
		pw = getpwnam(user);
		if (!pw)
			return err_set(err, -ENOENT, "there is no user '%s'", user);
		uid = pw->pw_uid;
	}
	if (group && *group && !parse_id(group, &gid)) {
		gr = getgrnam(group);
		if (!gr)
			return err_set(err, -ENOENT, "there is no group '%s'", group);
		gid = gr->gr_gid;
	}
	*ret_uid = uid;
	*ret_gid = gid;
	return 0;
}

bool access_is_private(const struct access *access)
{
	return !(access->mode & READERS) && access->uid == (uid_t)-1 &&
		access->gid == (gid_t)-1;
}

/* True if other users than the group of the pins must be able to search the directories. */
static bool is_for_others(const struct access *access)
{
	return access->mode & S_IROTH || access->uid != (uid_t)-1;
}

static int grant_maps(int dir_fd, const struct access *access)
{
	for (int i = 0; i < MAPID_CNT; i++) {
		const char *name = map_pin_name(i);
		mode_t mode = access->mode;

		if (!access->all && !map_is_counter(i))
			mode &= ~READERS;
		if (fchownat(dir_fd, name, access->uid, access->gid,
			    AT_SYMLINK_NOFOLLOW) ||
			fchmodat(dir_fd, name, mode, 0))
			return -errno;
	}
	return 0;
}

/*
 * The group of the directory is the first one that got access. If another group or a single user
 * gets access, all users can list the names of groups, but read nothing else.
 */
static int open_folder(int fd, const struct access *access)
{
	bool others = is_for_others(access), mine;
	struct stat st;
	mode_t mode;

	if (fstat(fd, &st))
		return -errno;
	mine = access->gid == (gid_t)-1 || access->gid == st.st_gid;
	if (!others && !mine && (st.st_mode & S_IRWXG) == 0) {
		if (fchown(fd, -1, access->gid))
			return -errno;
		mine = true;
	}
	mode = (st.st_mode & 07777) | S_IRGRP | S_IXGRP;
	if (others || !mine)
		mode |= S_IROTH | S_IXOTH;
	return mode != (st.st_mode & 07777) && fchmod(fd, mode) ? -errno : 0;
}

int access_grant(
	const struct bpffs *fs, int dir_fd, const struct access *access, struct err *err)
{
	int code;

	if (access_is_private(access))
		return 0;
	code = grant_maps(dir_fd, access);
	if (!code && access->uid != (uid_t)-1)
		code = bpffs_give_lock(dir_fd, access->uid);
	if (!code)
		code = open_folder(dir_fd, access);
	if (!code)
		code = open_folder(fs->fd, access);
	if (!code)
		return 0;
	err_sys(err, code, "cannot give others access");
	if (code == -EPERM)
		err_hint(err,
			"--share with an owner other than yourself and your groups needs CAP_CHOWN");
	return code;
}

bool access_is_blocked(
	const struct bpffs *fs, const struct access *access, mode_t *ret_mode)
{
	struct stat st;

	if (access_is_private(access) || fstatat(fs->fd, "..", &st, 0) ||
		st.st_mode & S_IXOTH)
		return false;
	*ret_mode = st.st_mode & 07777;
	return is_for_others(access) || !(st.st_mode & S_IXGRP) ||
		(access->gid != (gid_t)-1 && access->gid != st.st_gid);
}
