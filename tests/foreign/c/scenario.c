/* The common scenario with the C client; see tests/src/scenario.rs for what is said to whom. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

#define BASE "/c"
/* How long anything may take that is expected to happen, in seconds. */
#define PATIENCE 30

static void failed(const char *format, ...) {
    va_list args;
    va_start(args, format);
    printf("failed ");
    vprintf(format, args);
    printf("\n");
    va_end(args);
    exit(1);
}

/* The line in front tells which expectation it was. */
#define EXPECT(got, wanted)                                                                  \
    do {                                                                                     \
        long long got_ = (long long)(got), wanted_ = (long long)(wanted);                    \
        if (got_ != wanted_)                                                                 \
            failed("line %d: %s is %lld instead of %lld", __LINE__, #got, got_, wanted_);    \
    } while (0)

#define EXPECT_TEXT(got, wanted)                                                             \
    do {                                                                                     \
        if (strcmp((got), (wanted)) != 0)                                                    \
            failed("line %d: %s is %s instead of %s", __LINE__, #got, (got), (wanted));      \
    } while (0)

static void step(const char *name) {
    printf("step %s\n", name);
}

static void ask(const char *request) {
    char answer[64];
    printf("ask %s\n", request);
    if (fgets(answer, sizeof answer, stdin) == NULL || strcmp(answer, "done\n") != 0)
        failed("no answer to %s", request);
}

/* What a watcher has seen: events counted, the last one kept. */
struct seen {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int count, type, state, connected;
    char path[256];
};

static void seen_init(struct seen *seen) {
    memset(seen, 0, sizeof *seen);
    pthread_mutex_init(&seen->lock, NULL);
    pthread_cond_init(&seen->changed, NULL);
}

static void deadline(struct timespec *until) {
    clock_gettime(CLOCK_REALTIME, until);
    until->tv_sec += PATIENCE;
}

static void watcher(zhandle_t *zk, int type, int state, const char *path, void *context) {
    struct seen *seen = context;
    (void)zk;
    pthread_mutex_lock(&seen->lock);
    if (type == ZOO_SESSION_EVENT) {
        seen->state = state;
        if (state == ZOO_CONNECTED_STATE)
            seen->connected++;
    } else {
        seen->count++;
        seen->type = type;
        snprintf(seen->path, sizeof seen->path, "%s", path);
    }
    pthread_cond_broadcast(&seen->changed);
    pthread_mutex_unlock(&seen->lock);
}

/* Waits for one event, of this type and path, and forgets it. */
static void expect_event(struct seen *seen, int type, const char *path, int line) {
    struct timespec until;
    deadline(&until);
    pthread_mutex_lock(&seen->lock);
    while (seen->count == 0)
        if (pthread_cond_timedwait(&seen->changed, &seen->lock, &until) != 0)
            failed("line %d: no event of %s", line, path);
    if (seen->count != 1 || seen->type != type || strcmp(seen->path, path) != 0)
        failed("line %d: %d events, last %d of %s", line, seen->count, seen->type, seen->path);
    seen->count = 0;
    pthread_mutex_unlock(&seen->lock);
}

#define EXPECT_EVENT(seen, type, path) expect_event(seen, type, path, __LINE__)

static void wait_connected(struct seen *seen, int times) {
    struct timespec until;
    deadline(&until);
    pthread_mutex_lock(&seen->lock);
    while (seen->connected < times) {
        if (seen->state == ZOO_EXPIRED_SESSION_STATE)
            failed("the session expired");
        if (pthread_cond_timedwait(&seen->changed, &seen->lock, &until) != 0)
            failed("not connected, state %d", seen->state);
    }
    pthread_mutex_unlock(&seen->lock);
}

static zhandle_t *connect_to(const char *address, int timeout, struct seen *seen) {
    seen_init(seen);
    zhandle_t *zk = zookeeper_init(address, watcher, timeout, NULL, seen, 0);
    if (zk == NULL)
        failed("no handle");
    wait_connected(seen, 1);
    return zk;
}

static void done(int result, const void *context) {
    struct seen *seen = (struct seen *)context;
    pthread_mutex_lock(&seen->lock);
    seen->count++;
    seen->type = result;
    pthread_cond_broadcast(&seen->changed);
    pthread_mutex_unlock(&seen->lock);
}

static void done_string(int result, const char *value, const void *context) {
    (void)value;
    done(result, context);
}

/* Waits until `count` asynchronous calls have ended; gives the last result. */
static int await(struct seen *seen, int count) {
    struct timespec until;
    deadline(&until);
    pthread_mutex_lock(&seen->lock);
    while (seen->count < count)
        if (pthread_cond_timedwait(&seen->changed, &seen->lock, &until) != 0)
            failed("%d of %d asynchronous calls ended", seen->count, count);
    int result = seen->type;
    pthread_mutex_unlock(&seen->lock);
    return result;
}

static void sync_with(zhandle_t *zk) {
    struct seen seen;
    seen_init(&seen);
    EXPECT(zoo_async(zk, BASE, done_string, &seen), ZOK);
    EXPECT(await(&seen, 1), ZOK);
}

static int make(zhandle_t *zk, const char *path, const char *data) {
    return zoo_create(zk, path, data, (int)strlen(data), &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
}

static int get(zhandle_t *zk, const char *path, char *text, int size, struct Stat *stat) {
    int length = size - 1;
    int result = zoo_get(zk, path, 0, text, &length, stat);
    text[result == ZOK && length > 0 ? length : 0] = '\0';
    return result;
}

static int same_stat(const struct Stat *a, const struct Stat *b) {
    return a->czxid == b->czxid && a->mzxid == b->mzxid && a->pzxid == b->pzxid &&
           a->ctime == b->ctime && a->mtime == b->mtime && a->version == b->version &&
           a->cversion == b->cversion && a->aversion == b->aversion &&
           a->ephemeralOwner == b->ephemeralOwner && a->dataLength == b->dataLength &&
           a->numChildren == b->numChildren;
}

static void create_read(zhandle_t *zk) {
    char text[256];
    struct Stat stat, again;
    EXPECT(zoo_create(zk, BASE "/node", "first", 5, &ZOO_OPEN_ACL_UNSAFE, 0, text, sizeof text),
           ZOK);
    EXPECT_TEXT(text, BASE "/node");
    EXPECT(get(zk, BASE "/node", text, sizeof text, &stat), ZOK);
    EXPECT_TEXT(text, "first");
    EXPECT(stat.version, 0);
    EXPECT(stat.dataLength, 5);
    EXPECT(stat.ephemeralOwner, 0);
    EXPECT(stat.czxid, stat.mzxid);
    EXPECT(zoo_exists(zk, BASE "/node", 0, &again), ZOK);
    EXPECT(same_stat(&stat, &again), 1);
    EXPECT(zoo_exists(zk, BASE "/nothing", 0, &again), ZNONODE);
    EXPECT(get(zk, BASE "/nothing", text, sizeof text, &again), ZNONODE);
    EXPECT(make(zk, BASE "/nothing/below", ""), ZNONODE);
    EXPECT(make(zk, BASE "/node", ""), ZNODEEXISTS);
    EXPECT(zoo_create2(zk, BASE "/stat", "x", 1, &ZOO_OPEN_ACL_UNSAFE, 0, text, sizeof text,
                       &stat), ZOK);
    EXPECT(zoo_exists(zk, BASE "/stat", 0, &again), ZOK);
    EXPECT(same_stat(&stat, &again), 1);
    EXPECT(zoo_create(zk, BASE "/null", NULL, -1, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0), ZOK);
    int length = sizeof text;
    EXPECT(zoo_get(zk, BASE "/null", 0, text, &length, &stat), ZOK);
    EXPECT(length, -1);
}

static void versions(zhandle_t *zk) {
    char text[256];
    struct Stat stat;
    EXPECT(zoo_set2(zk, BASE "/node", "second", 6, 0, &stat), ZOK);
    EXPECT(stat.version, 1);
    EXPECT(stat.mzxid > stat.czxid, 1);
    EXPECT(zoo_set(zk, BASE "/node", "third", 5, 0), ZBADVERSION);
    EXPECT(get(zk, BASE "/node", text, sizeof text, &stat), ZOK);
    EXPECT_TEXT(text, "second");
    EXPECT(zoo_set(zk, BASE "/node", "third", 5, -1), ZOK);
    EXPECT(zoo_delete(zk, BASE "/node", 1), ZBADVERSION);
    EXPECT(zoo_delete(zk, BASE "/node", 2), ZOK);
    EXPECT(zoo_exists(zk, BASE "/node", 0, &stat), ZNONODE);
    EXPECT(zoo_delete(zk, BASE "/node", -1), ZNONODE);
}

static void children(zhandle_t *zk) {
    struct String_vector names;
    struct Stat stat;
    EXPECT(make(zk, BASE "/parent", ""), ZOK);
    EXPECT(make(zk, BASE "/parent/b", ""), ZOK);
    EXPECT(make(zk, BASE "/parent/a", ""), ZOK);
    EXPECT(zoo_get_children2(zk, BASE "/parent", 0, &names, &stat), ZOK);
    EXPECT(names.count, 2);
    int first = strcmp(names.data[0], "a") == 0 ? 0 : 1;
    EXPECT_TEXT(names.data[first], "a");
    EXPECT_TEXT(names.data[1 - first], "b");
    EXPECT(stat.numChildren, 2);
    EXPECT(stat.cversion, 2);
    deallocate_String_vector(&names);
    EXPECT(zoo_delete(zk, BASE "/parent", -1), ZNOTEMPTY);
    EXPECT(zoo_delete(zk, BASE "/parent/b", -1), ZOK);
    EXPECT(zoo_get_children(zk, BASE "/parent", 0, &names), ZOK);
    EXPECT(names.count, 1);
    EXPECT_TEXT(names.data[0], "a");
    deallocate_String_vector(&names);
}

static void sequence(zhandle_t *zk) {
    char text[256], wanted[256];
    EXPECT(make(zk, BASE "/queue", ""), ZOK);
    for (int number = 0; number < 3; number++) {
        EXPECT(zoo_create(zk, BASE "/queue/item-", "", 0, &ZOO_OPEN_ACL_UNSAFE,
                          ZOO_PERSISTENT_SEQUENTIAL, text, sizeof text), ZOK);
        snprintf(wanted, sizeof wanted, BASE "/queue/item-%010d", number);
        EXPECT_TEXT(text, wanted);
    }
    EXPECT(zoo_delete(zk, BASE "/queue/item-0000000002", -1), ZOK);
    EXPECT(zoo_create(zk, BASE "/queue/", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL_SEQUENTIAL,
                      text, sizeof text), ZOK);
    EXPECT_TEXT(text, BASE "/queue/0000000003");
    EXPECT(zoo_delete(zk, text, -1), ZOK);
}

static void ephemeral_closed(zhandle_t *zk, const char *address) {
    struct seen seen, session;
    struct Stat stat;
    zhandle_t *other = connect_to(address, 10000, &session);
    EXPECT(zoo_create(other, BASE "/ephemeral", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, NULL,
                      0), ZOK);
    seen_init(&seen);
    EXPECT(zoo_wexists(zk, BASE "/ephemeral", watcher, &seen, &stat), ZOK);
    EXPECT(stat.ephemeralOwner, zoo_client_id(other)->client_id);
    EXPECT(zookeeper_close(other), ZOK);
    EXPECT_EVENT(&seen, ZOO_DELETED_EVENT, BASE "/ephemeral");
    EXPECT(zoo_exists(zk, BASE "/ephemeral", 0, &stat), ZNONODE);
}

static void ephemeral_expired(zhandle_t *zk) {
    struct seen seen;
    struct Stat stat;
    ask("hold " BASE "/held");
    seen_init(&seen);
    EXPECT(zoo_wexists(zk, BASE "/held", watcher, &seen, &stat), ZOK);
    EXPECT(stat.ephemeralOwner != 0 && stat.ephemeralOwner != zoo_client_id(zk)->client_id, 1);
    ask("kill-holder");
    EXPECT_EVENT(&seen, ZOO_DELETED_EVENT, BASE "/held");
    EXPECT(zoo_exists(zk, BASE "/held", 0, &stat), ZNONODE);
}

static void watches(zhandle_t *zk) {
    struct seen seen;
    struct Stat stat;
    struct String_vector names;
    char text[16];
    const char *path = BASE "/watched";
    seen_init(&seen);
    EXPECT(zoo_wexists(zk, path, watcher, &seen, &stat), ZNONODE);
    EXPECT(make(zk, path, "0"), ZOK);
    EXPECT_EVENT(&seen, ZOO_CREATED_EVENT, path);
    EXPECT(zoo_set(zk, path, "1", 1, -1), ZOK);
    sync_with(zk);
    EXPECT(seen.count, 0);
    for (int round = 0; round < 2; round++) {
        int length = sizeof text;
        EXPECT(zoo_wget(zk, path, watcher, &seen, text, &length, &stat), ZOK);
        EXPECT(zoo_set(zk, path, "2", 1, -1), ZOK);
        EXPECT_EVENT(&seen, ZOO_CHANGED_EVENT, path);
        EXPECT(zoo_wget_children(zk, path, watcher, &seen, &names), ZOK);
        deallocate_String_vector(&names);
        EXPECT(make(zk, BASE "/watched/child", ""), ZOK);
        EXPECT_EVENT(&seen, ZOO_CHILD_EVENT, path);
        EXPECT(zoo_delete(zk, BASE "/watched/child", -1), ZOK);
    }
    int length = sizeof text;
    EXPECT(zoo_wget(zk, path, watcher, &seen, text, &length, &stat), ZOK);
    EXPECT(zoo_delete(zk, path, -1), ZOK);
    EXPECT_EVENT(&seen, ZOO_DELETED_EVENT, path);
}

static void multi(zhandle_t *zk) {
    zoo_op_t ops[4];
    zoo_op_result_t results[4];
    char made[256], sequential[256];
    struct Stat stat;
    struct String_vector names;
    zoo_create_op_init(&ops[0], BASE "/multi", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, made, sizeof made);
    zoo_create_op_init(&ops[1], BASE "/multi/s-", "", 0, &ZOO_OPEN_ACL_UNSAFE,
                       ZOO_PERSISTENT_SEQUENTIAL, sequential, sizeof sequential);
    zoo_check_op_init(&ops[2], BASE "/multi", 0);
    zoo_set_op_init(&ops[3], BASE "/multi", "set", 3, 0, &stat);
    EXPECT(zoo_multi(zk, 4, ops, results), ZOK);
    EXPECT_TEXT(made, BASE "/multi");
    EXPECT_TEXT(sequential, BASE "/multi/s-0000000000");
    EXPECT(stat.version, 1);
    for (int i = 0; i < 4; i++)
        EXPECT(results[i].err, ZOK);

    zoo_delete_op_init(&ops[0], sequential, -1);
    zoo_set_op_init(&ops[1], BASE "/multi", "no", 2, 7, NULL);
    zoo_create_op_init(&ops[2], BASE "/multi/c", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
    EXPECT(zoo_multi(zk, 3, ops, results), ZBADVERSION);
    EXPECT(results[0].err, ZOK);
    EXPECT(results[1].err, ZBADVERSION);
    EXPECT(results[2].err, ZRUNTIMEINCONSISTENCY);
    EXPECT(zoo_get_children2(zk, BASE "/multi", 0, &names, &stat), ZOK);
    EXPECT(names.count, 1);
    EXPECT(stat.version, 1);
    deallocate_String_vector(&names);
}

static void authenticate(zhandle_t *zk, const char *user) {
    struct seen seen;
    seen_init(&seen);
    EXPECT(zoo_add_auth(zk, "digest", user, (int)strlen(user), done, &seen), ZOK);
    EXPECT(await(&seen, 1), ZOK);
}

static void acl(zhandle_t *zk, const char *address) {
    struct seen session;
    struct ACL_vector entries;
    struct Stat stat;
    char text[64];
    const char *path = BASE "/secret";
    zhandle_t *owner = connect_to(address, 10000, &session);
    authenticate(owner, "bob:secret");
    EXPECT(zoo_create(owner, path, "treasure", 8, &ZOO_CREATOR_ALL_ACL, 0, NULL, 0), ZOK);
    EXPECT(zoo_get_acl(owner, path, &entries, &stat), ZOK);
    EXPECT(entries.count, 1);
    EXPECT(entries.data[0].perms, ZOO_PERM_ALL);
    EXPECT_TEXT(entries.data[0].id.scheme, "digest");
    EXPECT(strncmp(entries.data[0].id.id, "bob:", 4), 0);
    deallocate_ACL_vector(&entries);
    EXPECT(get(zk, path, text, sizeof text, &stat), ZNOAUTH);
    EXPECT(zoo_set(zk, path, "mine", 4, -1), ZNOAUTH);
    EXPECT(make(zk, BASE "/secret/child", ""), ZNOAUTH);
    EXPECT(zoo_set_acl(zk, path, -1, &ZOO_OPEN_ACL_UNSAFE), ZNOAUTH);
    authenticate(zk, "eve:guess");
    EXPECT(get(zk, path, text, sizeof text, &stat), ZNOAUTH);
    EXPECT(get(owner, path, text, sizeof text, &stat), ZOK);
    EXPECT_TEXT(text, "treasure");
    EXPECT(zoo_set_acl(owner, path, 0, &ZOO_OPEN_ACL_UNSAFE), ZOK);
    EXPECT(get(zk, path, text, sizeof text, &stat), ZOK);
    EXPECT(stat.aversion, 1);
    EXPECT(zoo_delete(zk, path, -1), ZOK);
    EXPECT(zookeeper_close(owner), ZOK);
}

/* Many requests in flight at once end in order and all succeed. */
static void pipelined(zhandle_t *zk) {
    struct seen seen;
    struct Stat stat;
    char path[64];
    enum { COUNT = 2000 };
    seen_init(&seen);
    EXPECT(make(zk, BASE "/many", ""), ZOK);
    for (int i = 0; i < COUNT; i++) {
        snprintf(path, sizeof path, BASE "/many/%d", i);
        EXPECT(zoo_acreate(zk, path, "x", 1, &ZOO_OPEN_ACL_UNSAFE, 0, done_string, &seen), ZOK);
    }
    EXPECT(await(&seen, COUNT), ZOK);
    EXPECT(zoo_exists(zk, BASE "/many", 0, &stat), ZOK);
    EXPECT(stat.numChildren, COUNT);
    seen_init(&seen);
    for (int i = 0; i < COUNT; i++) {
        snprintf(path, sizeof path, BASE "/many/%d", i);
        EXPECT(zoo_adelete(zk, path, 0, done, &seen), ZOK);
    }
    EXPECT(await(&seen, COUNT), ZOK);
    EXPECT(zoo_exists(zk, BASE "/many", 0, &stat), ZOK);
    EXPECT(stat.numChildren, 0);
    EXPECT(stat.cversion, 2 * COUNT);
}

/* A restart of the server keeps the session, its ephemeral node, its watches and all data. */
static void reconnect(zhandle_t *zk, struct seen *session, const char *how) {
    struct seen seen;
    struct Stat written, stat;
    char path[64], kept[64], text[64];
    snprintf(path, sizeof path, BASE "/%s-ephemeral", how);
    snprintf(kept, sizeof kept, BASE "/%s-kept", how);
    EXPECT(zoo_create(zk, path, "mine", 4, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, NULL, 0), ZOK);
    EXPECT(make(zk, kept, "kept"), ZOK);
    seen_init(&seen);
    EXPECT(zoo_wexists(zk, kept, watcher, &seen, &written), ZOK);
    int64_t id = zoo_client_id(zk)->client_id;
    pthread_mutex_lock(&session->lock);
    int connected = session->connected;
    pthread_mutex_unlock(&session->lock);
    ask(how);
    wait_connected(session, connected + 1);
    EXPECT(zoo_client_id(zk)->client_id, id);
    EXPECT(get(zk, path, text, sizeof text, &stat), ZOK);
    EXPECT_TEXT(text, "mine");
    EXPECT(stat.ephemeralOwner, id);
    EXPECT(get(zk, kept, text, sizeof text, &stat), ZOK);
    EXPECT_TEXT(text, "kept");
    EXPECT(same_stat(&stat, &written), 1);
    EXPECT(zoo_set(zk, kept, "more", 4, 0), ZOK);
    EXPECT_EVENT(&seen, ZOO_CHANGED_EVENT, kept);
}

static void remove_tree(zhandle_t *zk, const char *path) {
    struct String_vector names;
    char child[512];
    EXPECT(zoo_get_children(zk, path, 0, &names), ZOK);
    for (int i = 0; i < names.count; i++) {
        snprintf(child, sizeof child, "%s/%s", path, names.data[i]);
        remove_tree(zk, child);
    }
    deallocate_String_vector(&names);
    /* An ephemeral node may go by itself meanwhile. */
    int result = zoo_delete(zk, path, -1);
    if (result != ZNONODE)
        EXPECT(result, ZOK);
}

static void close_session(zhandle_t *zk, const char *address) {
    struct seen seen, session;
    struct Stat stat;
    zhandle_t *other = connect_to(address, 10000, &session);
    seen_init(&seen);
    EXPECT(zoo_wexists(other, BASE "/restart-ephemeral", watcher, &seen, &stat), ZOK);
    EXPECT(stat.ephemeralOwner, zoo_client_id(zk)->client_id);
    EXPECT(zookeeper_close(zk), ZOK);
    EXPECT_EVENT(&seen, ZOO_DELETED_EVENT, BASE "/restart-ephemeral");
    remove_tree(other, BASE);
    EXPECT(zoo_exists(other, BASE, 0, &stat), ZNONODE);
    EXPECT(zookeeper_close(other), ZOK);
}

/* What only one identity may touch is its own again after a restart of the server. */
static void protected_node(const char *address, const char *entry) {
    struct seen session;
    struct Stat stat;
    struct ACL_vector entries;
    char scheme[16], text[32];
    const char *path = BASE "/protected", *mine = BASE "/mine";
    step("connect");
    zhandle_t *zk = connect_to(address, 10000, &session);
    EXPECT(make(zk, BASE, ""), ZOK);
    step("protected");
    snprintf(scheme, sizeof scheme, "%.*s", (int)strcspn(entry, ":"), entry);
    if (strcmp(scheme, "digest") == 0)
        authenticate(zk, "bob:secret");
    struct ACL owner = {ZOO_PERM_ALL, {scheme, (char *)entry + strlen(scheme) + 1}};
    struct ACL_vector owners = {1, &owner};
    EXPECT(zoo_create(zk, path, "treasure", 8, &owners, 0, NULL, 0), ZOK);
    EXPECT(zoo_get_acl(zk, path, &entries, &stat), ZOK);
    EXPECT(entries.count, 1);
    EXPECT_TEXT(entries.data[0].id.scheme, owner.id.scheme);
    EXPECT_TEXT(entries.data[0].id.id, owner.id.id);
    deallocate_ACL_vector(&entries);
    EXPECT(get(zk, path, text, sizeof text, &stat), ZOK);
    EXPECT_TEXT(text, "treasure");
    ask("stranger " BASE "/protected");
    step("restart");
    EXPECT(zoo_create(zk, mine, "", 0, &owners, ZOO_EPHEMERAL, NULL, 0), ZOK);
    int64_t id = zoo_client_id(zk)->client_id;
    ask("restart");
    wait_connected(&session, 2);
    EXPECT(zoo_client_id(zk)->client_id, id);
    EXPECT(get(zk, mine, text, sizeof text, &stat), ZOK);
    EXPECT(stat.ephemeralOwner, id);
    EXPECT(get(zk, path, text, sizeof text, &stat), ZOK);
    EXPECT_TEXT(text, "treasure");
    EXPECT(zoo_set(zk, path, "more", 4, 0), ZOK);
    ask("stranger " BASE "/protected");
    step("close");
    EXPECT(zoo_delete(zk, mine, -1), ZOK);
    EXPECT(zoo_delete(zk, path, -1), ZOK);
    EXPECT(zoo_delete(zk, BASE, -1), ZOK);
    EXPECT(zookeeper_close(zk), ZOK);
    printf("passed\n");
}

static void scenario(const char *address) {
    struct seen session;
    step("connect");
    zhandle_t *zk = connect_to(address, 10000, &session);
    EXPECT(zoo_recv_timeout(zk), 10000);
    EXPECT(make(zk, BASE, ""), ZOK);
    step("create-read");
    create_read(zk);
    step("versions");
    versions(zk);
    step("children");
    children(zk);
    step("sequence");
    sequence(zk);
    step("ephemeral-closed");
    ephemeral_closed(zk, address);
    step("ephemeral-expired");
    ephemeral_expired(zk);
    step("watches");
    watches(zk);
    step("multi");
    multi(zk);
    step("acl");
    acl(zk, address);
    step("pipelined");
    pipelined(zk);
    step("restart");
    reconnect(zk, &session, "restart");
    step("crash");
    reconnect(zk, &session, "crash");
    step("close");
    close_session(zk, address);
    printf("passed\n");
}

int main(int count, char **arguments) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    zoo_set_debug_level(ZOO_LOG_LEVEL_WARN);
    if (count == 4 && strcmp(arguments[2], "hold") == 0) {
        struct seen session;
        zhandle_t *zk = connect_to(arguments[1], 2000, &session);
        EXPECT(zoo_create(zk, arguments[3], "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, NULL, 0),
               ZOK);
        printf("holding\n");
        for (;;)
            pause();
    }
    if (count == 4 && strcmp(arguments[2], "protected") == 0) {
        protected_node(arguments[1], arguments[3]);
        return 0;
    }
    if (count != 2)
        failed("usage: %s HOST:PORT [hold PATH | protected SCHEME:ID]", arguments[0]);
    scenario(arguments[1]);
    return 0;
}
