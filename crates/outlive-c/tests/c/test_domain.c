/* Domains, tokens, peers, codes. */
#include "testing.h"

#include <sys/stat.h>

static void ordinary(void) {
    char path[256];
    OK(outlive_domain_path(domain, path, sizeof path));
    CHECK(strcmp(path, folder) == 0);
    IS(EMSGSIZE, outlive_domain_path(domain, path, 3));
    CHECK(outlive_abi_version() >= OUTLIVE_ABI_VERSION && strchr(outlive_version(), '.') != NULL);
    uint32_t token = 0, process = 0;
    OK(outlive_domain_token(domain, &token));
    OK(outlive_domain_process_token(domain, &process));
    CHECK(token != 0 && outlive_peer_is_alive(domain, token) && outlive_peer_is_alive(domain, process));
    outlive_peer_info_t info;
    OK(outlive_peer_info(domain, process, &info));
    CHECK(info.pid == (uint32_t)getpid() && info.alive == 1 && info.is_process == 1);
    IS(ETIMEDOUT, outlive_peer_wait_dead(domain, token, outlive_after_ms(5)));
    IS(ETIMEDOUT, outlive_peer_wait_dead(domain, token, OUTLIVE_TRY));
}

/* The configuration file names the default domain, for C as for the program. */
static void configured(void) {
    char file[300], place[300], path[300];
    snprintf(file, sizeof file, "%s/.outlive.toml", folder);
    snprintf(place, sizeof place, "%s/.configured", folder);
    FILE *config = fopen(file, "w");
    CHECK(config != NULL && fprintf(config, "root = true\ndomain = '%s'\n", place) > 0);
    CHECK(fclose(config) == 0);
    CHECK(setenv("OUTLIVE_CONFIG", file, 1) == 0);
    CHECK(unsetenv("OUTLIVE_DOMAIN") == 0);
    outlive_domain_t *other = NULL;
    IS(ENOENT, outlive_domain_open(NULL, OUTLIVE_OPEN, &other));
    OK(outlive_domain_open(NULL, OUTLIVE_OPEN_OR_CREATE, &other));
    OK(outlive_domain_path(other, path, sizeof path));
    CHECK(strcmp(path, place) == 0);
    outlive_domain_close(other);
    config = fopen(file, "w");
    CHECK(config != NULL && fprintf(config, "domian = 'x'\n") > 0);
    CHECK(fclose(config) == 0);
    IS(EINVAL, outlive_domain_open(NULL, OUTLIVE_OPEN, &other));
    CHECK(strstr(outlive_last_error(), "is 'domain' meant?") != NULL);
    CHECK(unsetenv("OUTLIVE_CONFIG") == 0);
}

static void lend_token(void) {
    uint32_t token = 0;
    OK(outlive_domain_process_token(domain, &token));
    CHECK(write(news[1], &token, sizeof token) == sizeof token);
    for_ever();
}

static void peer_killed(void) {
    pid_t child = start(lend_token);
    uint32_t tokens[2] = {0, 0}, dead = 0;
    CHECK(read(news[0], &tokens[1], sizeof tokens[1]) == sizeof tokens[1]);
    close(news[0]);
    OK(outlive_domain_token(domain, &tokens[0]));
    CHECK(outlive_peer_is_alive(domain, tokens[1]));
    IS(ETIMEDOUT, outlive_peer_wait_any_dead(domain, tokens, 2, outlive_after_ms(5), &dead));
    CHECK(kill(child, SIGKILL) == 0);
    OK(outlive_peer_wait_dead(domain, tokens[1], SOON));
    OK(outlive_peer_wait_any_dead(domain, tokens, 2, SOON, &dead));
    CHECK(dead == tokens[1] && !outlive_peer_is_alive(domain, tokens[1]));
    CHECK(waitpid(child, NULL, 0) == child);
}

static void opened_otherwise(void) {
    outlive_domain_options_t options = OUTLIVE_DOMAIN_OPTIONS_INIT;
    outlive_domain_t *other = NULL;
    options.path = folder;
    options.recheck_ms = 500;
    OK(outlive_domain_open_with(&options, OUTLIVE_OPEN, &other));
    outlive_domain_close(other);
    options.group_name = "no such group";
    IS(EINVAL, outlive_domain_open_with(&options, OUTLIVE_OPEN, &other));
    options.group_name = NULL;
    char shared[96], number[16];
    snprintf(shared, sizeof shared, "%s/shared", folder);
    snprintf(number, sizeof number, "%u", (unsigned)getegid());
    options.path = shared;
    options.group_name = number;
    OK(outlive_domain_open_with(&options, OUTLIVE_CREATE_NEW, &other));
    outlive_domain_close(other);
    other = NULL;
    struct stat facts;
    CHECK(stat(shared, &facts) == 0 && (facts.st_mode & 07777) == 0770 && facts.st_gid == getegid());
    options.group_name = NULL;
    options.path = "/dev/shm/outlive-that-is-not-there";
    IS(ENOENT, outlive_domain_open_with(&options, OUTLIVE_OPEN, &other));
    IS(ENOENT, outlive_domain_open_at(options.path, OUTLIVE_OPEN, &other));
    IS(ENOENT, outlive_domain_open("not-there-at-all", OUTLIVE_OPEN, &other));
    IS(EEXIST, outlive_domain_open_at(folder, OUTLIVE_CREATE_NEW, &other));
    IS(EINVAL, outlive_domain_open_at(folder, (enum outlive_opening_t)3, &other));
    CHECK(other == NULL);
    char inner[96];
    snprintf(inner, sizeof inner, "%s/inner", folder);
    OK(outlive_domain_open_at(inner, OUTLIVE_CREATE_NEW, &other));
    outlive_domain_close(other);
    IS(EEXIST, outlive_domain_open_at(inner, OUTLIVE_CREATE_NEW, &other));
    OK(outlive_domain_open_at(inner, OUTLIVE_OPEN, &other));
    outlive_domain_close(other);
    other = NULL;
    /* An older header's struct is shorter, a newer one's longer. */
    options.path = folder;
    options.size = offsetof(outlive_domain_options_t, name);
    OK(outlive_domain_open_with(&options, OUTLIVE_OPEN_OR_CREATE, &other));
    outlive_domain_close(other);
    options.size = 3;
    IS(EINVAL, outlive_domain_open_with(&options, OUTLIVE_OPEN_OR_CREATE, &other));
    CHECK(setenv("OUTLIVE_DOMAIN", folder, 1) == 0);
    OK(outlive_domain_open(NULL, OUTLIVE_OPEN_OR_CREATE, &other));
    outlive_domain_close(other);
    OK(outlive_domain_open_with(NULL, OUTLIVE_OPEN_OR_CREATE, &other));
    outlive_domain_close(other);
}

static void bad_arguments(void) {
    outlive_domain_t *other = domain;
    IS(EINVAL, outlive_domain_open("a/b", OUTLIVE_OPEN_OR_CREATE, &other));
    CHECK(other == NULL && strstr(outlive_last_error(), "a/b") != NULL);
    IS(EINVAL, outlive_domain_open_at(NULL, OUTLIVE_OPEN_OR_CREATE, &other));
    IS(EINVAL, outlive_domain_open_at(folder, OUTLIVE_OPEN_OR_CREATE, NULL));
    IS(ENOENT, outlive_domain_open_at("/dev/shm/outlive-not/there/at/all", OUTLIVE_OPEN_OR_CREATE, &other));
    outlive_domain_close(NULL);
    uint32_t token = 0;
    IS(EINVAL, outlive_domain_token(NULL, &token));
    IS(EINVAL, outlive_domain_token(domain, NULL));
    CHECK(!outlive_peer_is_alive(domain, 0) && !outlive_peer_is_alive(domain, UINT32_MAX) && !outlive_peer_is_alive(NULL, 1));
    IS(EINVAL, outlive_peer_wait_dead(domain, 12345, SOON));
    IS(EINVAL, outlive_peer_wait_any_dead(domain, NULL, 2, SOON, NULL));
    IS(ETIMEDOUT, outlive_peer_wait_any_dead(domain, NULL, 0, outlive_after_ms(2), NULL));
    IS(EINVAL, outlive_domain_sweep(NULL, NULL));
    CHECK(strcmp(outlive_strerror(0), "success") == 0 && strlen(outlive_strerror(OUTLIVE_DAMAGED)) > 4);
    CHECK(strcmp(outlive_strerror(EPIPE), strerror(EPIPE)) == 0);
}

TESTS(TEST(ordinary), TEST(configured), TEST(peer_killed), TEST(opened_otherwise), TEST(bad_arguments))
