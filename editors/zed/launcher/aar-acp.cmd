@echo off
rem Starts the Aar that is installed on this machine as an ACP agent. Standard output belongs to the protocol.
rem With --http first, it serves over HTTP at ZED_AGENT_HOST and ZED_AGENT_PORT instead.
setlocal
set "AAR_LAUNCHED_BY=zed"
if not defined AAR_COMMAND set "AAR_COMMAND=aar"
if not defined ZED_AGENT_HOST set "ZED_AGENT_HOST=127.0.0.1"
if not defined ZED_AGENT_PORT set "ZED_AGENT_PORT=8000"
where "%AAR_COMMAND%" >nul 2>nul || if not exist "%AAR_COMMAND%" (
    echo aar was not found. Install Aar, or set AAR_COMMAND to its full path. 1>&2
    exit /b 127
)
if "%~1"=="--http" (
    "%AAR_COMMAND%" acp --http --host "%ZED_AGENT_HOST%" --port "%ZED_AGENT_PORT%"
) else (
    "%AAR_COMMAND%" acp %*
)
exit /b %errorlevel%
