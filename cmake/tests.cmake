# Tests. Every folder with a CMakeLists.txt below tests/, and examples/ and bench/, joins by itself. In them:
#
#   pawl_test(NAME n SOURCES a.c ... [LABELS quick ...] [TIMEOUT s] [ARGS ...] [LIBS ...] [DEFS ...] [ENV A=b ...] [VALGRIND])
#       a cmocka program linked with the layers of src/; VALGRIND: and once more under valgrind, as the test valgrind_n
#   pawl_script_test(NAME n COMMAND ... [LABELS quick ...] [TIMEOUT s] [ENV A=b ...])
#       any command that exits with 0 when all is well
#   pawl_valgrind_test(NAME n TARGET t [ARGS ...] [TIMEOUT s])
#       any program of the tests under valgrind, in builds without instruments of their own
#   pawl_fuzz(NAME n SOURCES a.c ... CORPUS folder [LIBS ...] [DEFS ...])
#       a libFuzzer target: fuzzed for PAWL_FUZZ_SECONDS in the preset fuzz; in the others but tsan its corpus is replayed, as a quick test
#
#   pawl_waits(n ...)
#       these tests mostly wait, for a lease to end or a server to start: up to four of them run beside what keeps processors busy
#
# Labels: quick (in `make quick` and `make check`), check (in `make check`; the default), soak (in `make soak` only),
# no-release, no-asan and no-tsan (left out of that run). Every test finds PAWL_BIN, PAWL_SOURCE_DIR, PAWL_BUILD_DIR in its environment, and
# PAWL_TIMEOUT_FACTOR: how many times longer things take in this build. Those labelled soak also find PAWL_SEED=random.
enable_testing()

find_path(CMOCKA_INCLUDE_DIR cmocka.h)
find_library(CMOCKA_LIBRARY cmocka)
if(NOT CMOCKA_INCLUDE_DIR OR NOT CMOCKA_LIBRARY)
    message(STATUS "cmocka is not installed: no tests (scripts/setup.sh check installs it)")
    return()
endif()

# More than a hundred programs: gold links them in half the time. (It is taken by folders that are added from here on.)
include(CheckLinkerFlag)
check_linker_flag(C -fuse-ld=gold PAWL_GOLD)
if(PAWL_GOLD)
    add_link_options(-fuse-ld=gold)
endif()

find_program(VALGRIND valgrind)
if(NOT VALGRIND)
    message(STATUS "valgrind is not installed: no tests under it (scripts/setup.sh check installs it)")
endif()

set(PAWL_FUZZ_SECONDS 60 CACHE STRING "How long each fuzz target runs")
add_custom_target(fuzzers) # all of them

set(test_environment
    PAWL_BIN=${CMAKE_BINARY_DIR}/pawl
    PAWL_SOURCE_DIR=${CMAKE_SOURCE_DIR}
    PAWL_BUILD_DIR=${CMAKE_BINARY_DIR}
    PAWL_TIMEOUT_FACTOR=${PAWL_TIMEOUT_FACTOR}
    CC=${CMAKE_C_COMPILER}
    ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1:allocator_may_return_null=1
    UBSAN_OPTIONS=print_stacktrace=1
    TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1)

function(pawl_test_properties)
    cmake_parse_arguments(arg "" "NAME;TIMEOUT" "LABELS;ENV" ${ARGN})
    if(NOT arg_LABELS)
        set(arg_LABELS check)
    endif()
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 60)
    endif()
    if("soak" IN_LIST arg_LABELS)
        list(APPEND arg_ENV PAWL_SEED=random) # elsewhere always the same: what fails by chance helps nobody
    endif()
    math(EXPR timeout "${arg_TIMEOUT} * ${PAWL_TIMEOUT_FACTOR} * 3") # a busy machine is as slow as that
    set_tests_properties(${arg_NAME} PROPERTIES
        LABELS "${arg_LABELS}" TIMEOUT ${timeout} ENVIRONMENT "${test_environment};${arg_ENV}" PROCESSORS 2)
endfunction()

# A processor counts twice (scripts/check.sh), so that a test that needs none can be counted as half of one.
function(pawl_waits)
    foreach(name ${ARGN})
        get_property(count GLOBAL PROPERTY pawl_waits_count)
        math(EXPR count "0${count} + 1")
        set_property(GLOBAL PROPERTY pawl_waits_count ${count})
        math(EXPR lane "${count} % 4")
        set_property(TEST ${name} APPEND PROPERTY RESOURCE_LOCK waits_${lane})
        set_tests_properties(${name} PROPERTIES PROCESSORS 1 COST 1000)
    endforeach()
endfunction()

function(pawl_test)
    cmake_parse_arguments(arg "VALGRIND" "NAME;TIMEOUT" "SOURCES;LABELS;ARGS;LIBS;DEFS;ENV" ${ARGN})
    add_executable(test_${arg_NAME} ${arg_SOURCES})
    target_include_directories(test_${arg_NAME} PRIVATE ${CMAKE_SOURCE_DIR}/tests ${CMOCKA_INCLUDE_DIR} ${gen})
    target_compile_definitions(test_${arg_NAME} PRIVATE ${arg_DEFS})
    target_link_libraries(test_${arg_NAME} PRIVATE ${arg_LIBS} ${library_layers} ${CMOCKA_LIBRARY} Threads::Threads)
    add_test(NAME ${arg_NAME} COMMAND test_${arg_NAME} ${arg_ARGS})
    pawl_test_properties(NAME ${arg_NAME} TIMEOUT ${arg_TIMEOUT} LABELS ${arg_LABELS} ENV ${arg_ENV})
    if(arg_VALGRIND)
        pawl_valgrind_test(NAME ${arg_NAME} TARGET test_${arg_NAME} ARGS ${arg_ARGS})
    endif()
endfunction()

function(pawl_valgrind_test)
    cmake_parse_arguments(arg "" "NAME;TARGET;TIMEOUT" "ARGS" ${ARGN})
    if(VALGRIND AND NOT CMAKE_C_FLAGS MATCHES "-fsanitize=|--coverage")
        pawl_script_test(NAME valgrind_${arg_NAME} TIMEOUT ${arg_TIMEOUT} LABELS check
            COMMAND ${VALGRIND} --quiet --error-exitcode=99 --leak-check=full --show-leak-kinds=definite,indirect,possible
                    --errors-for-leak-kinds=definite,indirect,possible $<TARGET_FILE:${arg_TARGET}> ${arg_ARGS})
    endif()
endfunction()

function(pawl_script_test)
    cmake_parse_arguments(arg "" "NAME;TIMEOUT" "COMMAND;LABELS;ENV" ${ARGN})
    add_test(NAME ${arg_NAME} COMMAND ${arg_COMMAND} WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
    pawl_test_properties(NAME ${arg_NAME} TIMEOUT ${arg_TIMEOUT} LABELS ${arg_LABELS} ENV ${arg_ENV})
endfunction()

# A command that needs the tests' PostgreSQL server (tests/postgres/server.sh), which one run of ctest starts once.
function(pawl_postgres_test)
    cmake_parse_arguments(arg "" "NAME;TIMEOUT" "COMMAND;LABELS;ENV" ${ARGN})
    if(TARGET pawl_postgres)
        pawl_script_test(NAME ${arg_NAME} COMMAND ${arg_COMMAND} LABELS ${arg_LABELS} TIMEOUT ${arg_TIMEOUT}
            ENV PAWL_TEST_SERVER=${CMAKE_BINARY_DIR}/tests/postgres/server ${arg_ENV})
        set_tests_properties(${arg_NAME} PROPERTIES FIXTURES_REQUIRED postgres SKIP_RETURN_CODE 77)
    endif()
endfunction()

# The same for MariaDB (tests/mysql/server.sh).
function(pawl_mysql_test)
    cmake_parse_arguments(arg "" "NAME;TIMEOUT" "COMMAND;LABELS;ENV" ${ARGN})
    if(TARGET pawl_mysql)
        pawl_script_test(NAME ${arg_NAME} COMMAND ${arg_COMMAND} LABELS ${arg_LABELS} TIMEOUT ${arg_TIMEOUT}
            ENV PAWL_TEST_MYSQL_SERVER=${CMAKE_BINARY_DIR}/tests/mysql/server ${arg_ENV})
        set_tests_properties(${arg_NAME} PROPERTIES FIXTURES_REQUIRED mysql SKIP_RETURN_CODE 77)
    endif()
endfunction()

function(pawl_fuzz)
    if(CMAKE_C_FLAGS MATCHES "-fsanitize=thread")
        return() # what parses has one thread
    endif()
    cmake_parse_arguments(arg "" "NAME;CORPUS" "SOURCES;LIBS;DEFS" ${ARGN})
    set(target fuzz_${arg_NAME})
    set(corpus ${CMAKE_CURRENT_SOURCE_DIR}/${arg_CORPUS})
    add_executable(${target} ${arg_SOURCES} ${CMAKE_SOURCE_DIR}/tests/fuzz/fuzz.c)
    target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
    target_compile_definitions(${target} PRIVATE ${arg_DEFS})
    target_link_libraries(${target} PRIVATE ${arg_LIBS} ${library_layers})
    add_dependencies(fuzzers ${target})
    if(CMAKE_C_FLAGS MATCHES "fuzzer-no-link")
        target_link_options(${target} PRIVATE -fsanitize=fuzzer)
        set(found ${CMAKE_CURRENT_BINARY_DIR}/found/${arg_NAME})
        file(MAKE_DIRECTORY ${found})
        math(EXPR timeout "${PAWL_FUZZ_SECONDS} + 60")
        pawl_script_test(NAME ${target} TIMEOUT ${timeout} LABELS fuzz
            COMMAND ${target} -max_total_time=${PAWL_FUZZ_SECONDS} -max_len=4096 -timeout=5 -print_final_stats=1
                    -artifact_prefix=${CMAKE_CURRENT_BINARY_DIR}/found/${arg_NAME}- ${found} ${corpus})
    else()
        target_sources(${target} PRIVATE ${CMAKE_SOURCE_DIR}/tests/fuzz/replay.c)
        pawl_script_test(NAME ${target} LABELS quick COMMAND ${target} ${corpus})
    endif()
endfunction()

file(GLOB test_lists CONFIGURE_DEPENDS
    ${CMAKE_SOURCE_DIR}/tests/*/CMakeLists.txt ${CMAKE_SOURCE_DIR}/examples/CMakeLists.txt ${CMAKE_SOURCE_DIR}/bench/CMakeLists.txt)
foreach(test_list ${test_lists})
    cmake_path(GET test_list PARENT_PATH folder)
    cmake_path(RELATIVE_PATH folder BASE_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE relative)
    add_subdirectory(${folder} ${CMAKE_BINARY_DIR}/${relative})
endforeach()
