"""What answers of this API can say, and what becomes of it in the APIs that are served (`apis/answers.py`)."""

from typing import Final

from accord.apis.answers import PartFinder, read_rows

ROWS: Final = read_rows("""
responseId N N N
modelVersion N N N
createTime N N L
modelStatus L L L
promptFeedback.blockReason N N N
promptFeedback.blockReasonMessage L L L
promptFeedback.safetyRatings L L L

candidates[].index L L L = 0 # only the first of several answers is read
candidates[].content.role N N N
candidates[].content.parts[].text N N N
candidates[].content.parts[].thought C N N = false # as `reasoning_content`
candidates[].content.parts[].thought=media L L L # an image on the way to the answer
candidates[].content.parts[].thoughtSignature C C C # beside the call, or as a block or an item of reasoning
candidates[].content.parts[].thoughtSignature=late C C L # of a call that has begun without it
candidates[].content.parts[].functionCall N N N
candidates[].content.parts[].inlineData N N N
candidates[].content.parts[].inlineData=image C C L # as one of `images`, or an `image_generation_call`
candidates[].content.parts[].inlineData=audio C L L # as `audio`
candidates[].content.parts[].inlineData=file L L L
candidates[].content.parts[].fileData N N N
candidates[].content.parts[].fileData=image C L L # as one of `images`
candidates[].content.parts[].fileData=audio L L L
candidates[].content.parts[].fileData=file L L L
candidates[].content.parts[].audioTranscription.text C L L # as the transcript of `audio`
candidates[].content.parts[].audioTranscription.endOffset L L L
candidates[].content.parts[].audioTranscription.finished L L L
candidates[].content.parts[].audioTranscription.languageCode L L L
candidates[].content.parts[].audioTranscription.speakerLabel L L L
candidates[].content.parts[].audioTranscription.startOffset L L L
candidates[].content.parts[].audioTranscription.words L L L
candidates[].content.parts[].executableCode L L L # code that the endpoint ran
candidates[].content.parts[].codeExecutionResult L L L # code that the endpoint ran
candidates[].content.parts[].toolCall L L L # a tool that the endpoint runs
candidates[].content.parts[].toolResponse L L L # a tool that the endpoint runs
candidates[].content.parts[].functionResponse L L L
candidates[].content.parts[].mediaProcessing L L L
candidates[].content.parts[].mediaResolution L L L
candidates[].content.parts[].partMetadata L L L
candidates[].content.parts[].speechMetadata L L L
candidates[].content.parts[].videoMetadata L L L

candidates[].finishReason N N N
candidates[].finishReason=BLOCKLIST C C C # as a content filter
candidates[].finishReason=ESCALATION C C C # as a content filter
candidates[].finishReason=IMAGE_PROHIBITED_CONTENT C C C # as a content filter
candidates[].finishReason=IMAGE_RECITATION C C C # it would repeat training data; as a content filter
candidates[].finishReason=IMAGE_SAFETY C C C # as a content filter
candidates[].finishReason=JAILBREAK C C C # as a content filter
candidates[].finishReason=LANGUAGE C C C # the language is not supported; as a content filter
candidates[].finishReason=MODEL_ARMOR C C C # as a content filter
candidates[].finishReason=RECITATION C C C # it would repeat training data; as a content filter
candidates[].finishReason=SPII C C C # it contains personal data; as a content filter
candidates[].finishReason=CONTINUATION C C C # the endpoint would continue it in another request; it counts as cut off
candidates[].finishMessage L L L
candidates[].continuationToken L L L
candidates[].tokenCount L L L
candidates[].avgLogprobs L L L
candidates[].logprobsResult.chosenCandidates[].token N N L
candidates[].logprobsResult.chosenCandidates[].logProbability N N L
candidates[].logprobsResult.chosenCandidates[].tokenId L L L
candidates[].logprobsResult.topCandidates[]=alone L L L # of a token that the endpoint does not name
candidates[].logprobsResult.topCandidates[].candidates[].token N N L
candidates[].logprobsResult.topCandidates[].candidates[].logProbability N N L
candidates[].logprobsResult.topCandidates[].candidates[].tokenId L L L
candidates[].logprobsResult.logProbabilitySum L L L
candidates[].safetyRatings L L L
candidates[].urlContextMetadata L L L # addresses that the endpoint read

candidates[].citationMetadata.citations[]=no_address L L L # a source without an address
candidates[].citationMetadata.citations[].uri N N C # as a `web_search_result_location`
candidates[].citationMetadata.citations[].title N N N
candidates[].citationMetadata.citations[].startIndex N N L
candidates[].citationMetadata.citations[].endIndex N N L
candidates[].citationMetadata.citations[].license L L L
candidates[].citationMetadata.citations[].publicationDate L L L
candidates[].citationMetadata.citationSources[]=no_address L L L # a source without an address
candidates[].citationMetadata.citationSources[].uri N N C # as a `web_search_result_location`
candidates[].citationMetadata.citationSources[].title N N N
candidates[].citationMetadata.citationSources[].startIndex N N L
candidates[].citationMetadata.citationSources[].endIndex N N L
candidates[].citationMetadata.citationSources[].license L L L
candidates[].citationMetadata.citationSources[].publicationDate L L L
candidates[].groundingMetadata.groundingChunks[]=no_address L L L # a source without an address
candidates[].groundingMetadata.groundingChunks[].web.uri N N C # as a `web_search_result_location`
candidates[].groundingMetadata.groundingChunks[].web.title N N N
candidates[].groundingMetadata.groundingChunks[].web.domain L L L
candidates[].groundingMetadata.groundingChunks[].retrievedContext.uri N N C # as a `web_search_result_location`
candidates[].groundingMetadata.groundingChunks[].retrievedContext.title N N N
candidates[].groundingMetadata.groundingChunks[].retrievedContext.text C L C # as `content` or `cited_text`
candidates[].groundingMetadata.groundingChunks[].retrievedContext.customMetadata L L L
candidates[].groundingMetadata.groundingChunks[].retrievedContext.documentName L L L
candidates[].groundingMetadata.groundingChunks[].retrievedContext.fileSearchStore L L L
candidates[].groundingMetadata.groundingChunks[].retrievedContext.mediaId L L L
candidates[].groundingMetadata.groundingChunks[].retrievedContext.pageNumber L L L
candidates[].groundingMetadata.groundingChunks[].retrievedContext.ragChunk L L L
candidates[].groundingMetadata.groundingChunks[].maps.uri N N C # as a `web_search_result_location`
candidates[].groundingMetadata.groundingChunks[].maps.title N N N
candidates[].groundingMetadata.groundingChunks[].maps.text C L C # as `content` or `cited_text`
candidates[].groundingMetadata.groundingChunks[].maps.placeAnswerSources L L L
candidates[].groundingMetadata.groundingChunks[].maps.placeId L L L
candidates[].groundingMetadata.groundingChunks[].maps.route L L L
candidates[].groundingMetadata.groundingChunks[].image.sourceUri N N C # as a `web_search_result_location`
candidates[].groundingMetadata.groundingChunks[].image.title N N N
candidates[].groundingMetadata.groundingChunks[].image.domain L L L
candidates[].groundingMetadata.groundingChunks[].image.imageUri L L L
candidates[].groundingMetadata.groundingSupports[].segment N N L # where the text is that a source is about
candidates[].groundingMetadata.groundingSupports[].groundingChunkIndices N N N
candidates[].groundingMetadata.groundingSupports[].confidenceScores L L L
candidates[].groundingMetadata.groundingSupports[].renderedParts L L L
candidates[].groundingMetadata.googleMapsWidgetContextToken L L L
candidates[].groundingMetadata.imageSearchQueries L L L
candidates[].groundingMetadata.retrievalMetadata L L L
candidates[].groundingMetadata.retrievalQueries L L L
candidates[].groundingMetadata.searchEntryPoint L L L # Google's own suggestions to show with the answer
candidates[].groundingMetadata.sourceFlaggingUris L L L
candidates[].groundingMetadata.webSearchQueries L L L

usageMetadata.promptTokenCount N N N
usageMetadata.promptTokensDetails L L L # what is text is in the totals
usageMetadata.cachedContentTokenCount N N N
usageMetadata.cacheTokensDetails L L L # what is text is in the totals
usageMetadata.candidatesTokenCount N N N
usageMetadata.candidatesTokensDetails L L L # what is text is in the totals
usageMetadata.thoughtsTokenCount N N N
usageMetadata.toolUsePromptTokenCount C C C = 0 # in the count of input
usageMetadata.toolUsePromptTokensDetails L L L # what is text is in the totals
usageMetadata.totalTokenCount N N N
usageMetadata.serviceTier L L L = "standard" "priority" "flex" "unspecified"
usageMetadata.serviceTier=flex N N C # as the endpoint names it
usageMetadata.trafficType L L L = "ON_DEMAND" "ON_DEMAND_PRIORITY" "ON_DEMAND_FLEX" "TRAFFIC_TYPE_UNSPECIFIED"
usageMetadata.trafficType=ON_DEMAND_FLEX N N C # as the endpoint names it
""")
FINDER: Final = PartFinder(ROWS)
LIKELIEST_ALONE: Final = "candidates[].logprobsResult.topCandidates[]=alone"
"""The part for the likeliest tokens in a place without the one that was chosen."""
