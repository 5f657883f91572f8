add_library(tpcl_warnings INTERFACE) # build-only flags, never exported
target_compile_options(tpcl_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes
  $<$<BOOL:${TPCL_WERROR}>:-Werror>)
if(TPCL_SANITIZE)
  target_compile_options(tpcl_warnings INTERFACE -fsanitize=${TPCL_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=undefined)
  target_link_options(tpcl_warnings INTERFACE -fsanitize=${TPCL_SANITIZE})
endif()
